"""Ends and removes pods, in threads. Used by ``runtime``.

A pod is deleted by its uid: another one with its name is never meant. Its finalizer is taken away only once the master
has noted its end, and a minute later: a request for its creation that was late would otherwise find its name free, and
run the attempt again.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable

from grass.errors import GrassError
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.names import FINALIZER, selector
from grass.kubernetes.objects import ANY, PODS, Pod
from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from node.runtime.kubernetes.lease import delete_lease
from node.runtime.kubernetes.place import Place
from node.runtime.reactor import Reactor

TOMBSTONE = 60.0
"""Seconds for which the name of a pod stays taken, from when it was created, or first seen."""
_LEAST_GRACE = 1
"""Seconds. With 0 the server would not wait for the machine of a running pod."""
_RETRY = 2.0
_LOG_PATIENCE = 2.0
"""Seconds that the deletion of a pod waits for its log to be followed."""

log = logging.getLogger(__name__)


class Removal:
    """``release`` and ``delete`` return at once; what fails is tried again."""

    def __init__(self, api: ApiServer, place: Place, reactor: Reactor, tombstone: float) -> None:
        self._api = api
        self._place = place
        self._reactor = reactor
        self._tombstone = tombstone
        self._released: set[str] = set()
        """Uids of pods that are being removed."""
        self.trouble: Reason | None = None
        """Which right is missing, if the server refused the last request for want of one."""

    def releases(self, pod: Pod) -> bool:
        """Return whether a pod is being removed."""
        return pod.metadata.uid in self._released

    def delete(self, name: str, uid: str, grace: float, wait: threading.Event | None) -> None:
        """Ask for the end of a pod. ``wait``: set when its log is followed."""
        self._reactor.errands.ask(
            functools.partial(self._delete, name, uid, max(_LEAST_GRACE, round(grace)), wait),
            functools.partial(self._after_delete, name, uid, grace),
        )

    def release(self, pod: Pod, *, at_once: bool) -> None:
        """Remove an ended pod. ``at_once``: no pod can be created in its namespace, so that its name may be free."""
        self._released.add(pod.metadata.uid)
        until = clock.steady() + (0.0 if at_once else self._tombstone)
        self._remove(pod.metadata.name, pod.metadata.uid, until)

    def _remove(self, name: str, uid: str, until: float) -> None:
        self._reactor.removers.ask(
            functools.partial(self._delete, name, uid, 0, None),
            functools.partial(self._after_remove, name, uid, until),
        )

    def _after_delete(self, name: str, uid: str, grace: float, result: bool | GrassError) -> None:
        self._note(result)
        if isinstance(result, GrassError):
            log.info("pod %s: cannot be deleted now: %s; trying again", name, result)
            self._reactor.after(_RETRY, lambda: self.delete(name, uid, grace, None))

    def _after_remove(self, name: str, uid: str, until: float, result: bool | GrassError) -> None:
        self._note(result)
        if isinstance(result, GrassError):
            self._reactor.after(_RETRY, lambda: self._remove(name, uid, until))
        elif result:
            self._reactor.at(until, lambda: self._strip(name, uid))
        else:
            self._released.discard(uid)

    def _strip(self, name: str, uid: str) -> None:
        self._reactor.removers.ask(
            functools.partial(_strip, self._api, f"{self._place.path}/{name}", uid),
            functools.partial(self._after_strip, name, uid),
        )

    def _after_strip(self, name: str, uid: str, result: bool | GrassError) -> None:
        self._note(result)
        if isinstance(result, GrassError):
            log.info("pod %s: its finalizer cannot be removed now: %s; trying again", name, result)
            self._reactor.after(_RETRY, lambda: self._strip(name, uid))
        else:
            self._released.discard(uid)

    def _note(self, result: object) -> None:
        refused = isinstance(result, RefusedError) and result.http == 403
        self.trouble = Reason(ReasonCode.RUNTIME, f"Kubernetes refuses the agent: {result}") if refused else None

    def _delete(self, name: str, uid: str, grace: int, wait: threading.Event | None) -> bool:
        """Return whether the pod is still there."""
        if wait is not None:
            wait.wait(_LOG_PATIENCE)
        return _delete(self._api, f"{self._place.path}/{name}", uid, {"gracePeriodSeconds": grace})


def sweep(api: ApiServer, place: Place, *, remove: bool) -> None:
    """End all pods of a node. With ``remove`` nothing of it stays; otherwise their ends can still be reported."""
    page = api.get(place.path, PODS, {"labelSelector": selector(place.cluster, place.node)})
    for each in page.items:
        path = f"{place.path}/{each.metadata.name}"
        _delete(api, path, each.metadata.uid, {})
        if remove:
            _strip(api, path, each.metadata.uid)
    if remove:
        delete_lease(api, place)


def _delete(api: ApiServer, path: str, uid: str, options: dict[str, object]) -> bool:
    """Ask for the end of a pod; return whether it is still there."""
    return _is_there(lambda: api.delete(path, ANY, {**options, "preconditions": {"uid": uid}}))


def _strip(api: ApiServer, path: str, uid: str) -> bool:
    """Take our finalizer away, by a patch of one value: no other change can conflict with it."""
    body = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    return _is_there(lambda: api.patch(path, body, ANY))


def _is_there(request: Callable[[], object]) -> bool:
    """Make a request for one pod. Return False if it is gone, or another pod has its name."""
    try:
        request()
    except RefusedError as error:
        if error.http in (404, 409):
            return False
        raise
    return True
