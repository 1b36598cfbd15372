"""Holds the lease of a node, in a thread: of several agents for one node, only the one that holds it changes pods.

A lease is no lock. A request that was sent in time may arrive late; the tombstones of ``removal`` are for that. An
agent that finds that another one has acted since it last held the lease ends: what it knows and has queued is old.

The agents of one folder have one identity, so that an agent which follows a killed one need not wait; a lock file makes
sure that only one of them lives. Used by ``runtime``.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from grass.errors import GrassError, InputError, NotAllowedError, UnreachableError
from grass.kubernetes import names
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.objects import ANY, LEASE, Lease
from grass.model.pod_security import Part
from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from node.runtime.kubernetes.claim import Claim, Step, Times
from node.runtime.kubernetes.place import Place

_REQUEST_SECONDS = 5.0
_REFUSED_PAUSE = 15.0
"""Seconds after an answer that will hardly change soon: each try may run a plugin that fetches credentials."""

log = logging.getLogger(__name__)


class NotHeldError(UnreachableError):
    """This agent may change nothing now; nothing was sent."""


class TooLateError(Exception):
    """Another agent has acted for the node: this one must end."""


class Standing(NamedTuple):
    """How an agent stands with the lease. ``held``: whether it holds it. ``trouble``: why it cannot have or renew it.

    ``gone``: the server says that the namespace is gone or being deleted. No pod can be made there, so that nobody
    needs a lease to remove some.
    """

    held: bool = False
    trouble: Reason | None = None
    gone: bool = False


class LeaseHolder:
    """``told`` is called in the thread with each new standing. The thread fails with TooLateError when the agent must
    end."""

    def __init__(
        self, api: ApiServer, place: Place, told: Callable[[Standing], None], times: Times | None = None
    ) -> None:
        self._api = api.fenced(lambda: _REQUEST_SECONDS)
        self._place = place
        self._told = told
        self._times = times or Times()
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases"
        self._labels = names.node_labels(place.cluster, place.node)
        self._name = names.lease_name(self._labels)
        self._claim = Claim(_identity(place.folder), self._times)
        self._found: Lease | None = None
        self._standing = Standing()
        self._lock: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, release: bool) -> None:
        """End the claim. ``release``: nothing that was sent is under way any more, so that another agent may begin."""
        self._stop.set()
        self._thread.join(_REQUEST_SECONDS)
        if release and not self._thread.is_alive() and self._claim.left(clock.steady()) and self._found is not None:
            with suppress(GrassError):
                self._put(self._found, "", seconds=1)
        if self._lock is not None:
            os.close(self._lock)
        self._api.close()

    def writing(self) -> float:
        """Return the seconds that a request may take that changes something. Raises NotHeldError. For any thread."""
        left = self._claim.left(clock.steady())
        if left <= 0:
            why = self._standing.trouble
            raise NotHeldError(str(why) if why else "waits for the lease of its node")
        return left

    def _run(self) -> None:
        while not self._stop.is_set():
            pause = self._times.every
            try:
                self._tell(self._turn())
            except (RefusedError, NotAllowedError, InputError) as error:
                self._found = None
                pause = _REFUSED_PAUSE
                self._trouble(f"the lease of its node cannot be renewed: {error}")
            except GrassError as error:
                self._found = None
                if not self._claim.left(clock.steady()):
                    self._trouble(f"the lease of its node cannot be renewed: {error}")
            self._stop.wait(pause)

    def _turn(self) -> Standing:
        """Have the lease, or see who has it."""
        if self._lock is None and not self._locked():
            return self._waits(f"another agent in {self._place.folder}")
        if self._found is None:
            self._found = self._get()
        step = self._claim.next(self._found, clock.steady())
        holder = self._found.spec.holder_identity if self._found is not None else None
        match step:
            case Step.ANEW:
                raise TooLateError(
                    f"node {self._place.node}: another agent, {holder or 'which has ended'}, acted for it while this "
                    "one did not answer; this one ends, and begins anew"
                )
            case Step.WAIT:
                self._found = None
                return self._waits(f"another agent, {holder}")
            case _:
                return self._have()

    def _have(self) -> Standing:
        sent, found = clock.steady(), self._found
        try:
            self._found = self._post() if found is None else self._put(found, self._claim.identity)
        except RefusedError as error:
            self._found = None
            if error.http == 409 or (error.http == 404 and found is not None):  # changed or deleted meanwhile: look
                return self._standing
            if error.http == 404 or "is being terminated" in str(error):
                self._claim.renewed(sent)
                return Standing(True, Reason(ReasonCode.RUNTIME, f"its namespace is gone: {error}"), gone=True)
            raise
        self._claim.renewed(sent)
        return Standing(True)

    def _waits(self, who: str) -> Standing:
        message = f"{who}, acts for node {self._place.node} in namespace {self._place.namespace}; end one of the two"
        return Standing(False, Reason(ReasonCode.RUNTIME, message))

    def _trouble(self, message: str) -> None:
        self._tell(Standing(bool(self._claim.left(clock.steady())), Reason(ReasonCode.RUNTIME, message)))

    def _tell(self, standing: Standing) -> None:
        if standing == self._standing:
            return
        if standing.trouble is not None:
            log.error("node %s: %s", self._place.node, standing.trouble)
        self._standing = standing
        self._told(standing)

    def _locked(self) -> bool:
        """Return whether no other process has the folder."""
        folder = Path(self._place.folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def _get(self) -> Lease | None:
        return self._api.find(f"{self._path}/{self._name}", LEASE)

    def _post(self) -> Lease:
        metadata = {"name": self._name, "labels": self._labels}
        return self._api.post(self._path, self._body(metadata, self._claim.identity, self._times.lasts, 0), LEASE)

    def _put(self, found: Lease, holder: str, seconds: float | None = None) -> Lease:
        metadata = {
            "name": self._name,
            "labels": self._labels,
            "resourceVersion": found.metadata.resource_version,
        }
        taken = (found.spec.lease_transitions or 0) + (holder not in ("", found.spec.holder_identity))
        body = self._body(metadata, holder, seconds or self._times.lasts, taken)
        return self._api.put(f"{self._path}/{self._name}", body, LEASE)

    def _body(self, metadata: Part, holder: str, seconds: float, taken: int) -> Part:
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": round(seconds),
            "renewTime": datetime.fromtimestamp(clock.wall(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "leaseTransitions": taken,
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def delete_lease(api: ApiServer, place: Place) -> None:
    """Remove the lease of a node that is removed."""
    name = names.lease_name(names.node_labels(place.cluster, place.node))
    try:
        api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases/{name}", ANY)
    except RefusedError as error:
        if error.http != 404:
            raise


def _identity(folder: str) -> str:
    return f"{socket.gethostname()}-{names.short(f'{clock.boot_id()} {folder}')}"
