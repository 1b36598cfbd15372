"""Creates pods, in threads. Used by ``runtime``."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping

from grass.errors import GrassError, InputError
from grass.kubernetes import names, queues
from grass.kubernetes.api import ApiServer, BusyError, RefusedError
from grass.kubernetes.objects import ANY, POD, Pod
from grass.kubernetes.trial import machines
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import KubernetesConfig
from grass.system import clock
from grass.wire.machines import Machines
from node.runtime.kubernetes.affinity import affinity, needs_machines
from node.runtime.kubernetes.attempt import PodAttempt
from node.runtime.kubernetes.creation import Decision, Step, after_refusal, belongs
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.pods import pod
from node.runtime.protocol import Launch, Start
from node.runtime.reactor import Reactor

_MACHINES_SECONDS = 60.0
"""For how long a list of machines is used, to find the models of their GPUs."""


class Starts:
    """Creates the pods of attempts, each in a thread."""

    def __init__(self, api: ApiServer, place: Place, settings: KubernetesConfig, reactor: Reactor) -> None:
        self._api = api
        self._place = place
        self._settings = settings
        self._reactor = reactor
        self._looking = threading.Lock()
        self._looked: float | None = None
        self._seen: Machines | None = None

    def begin(self, attempt: PodAttempt, launch: Launch | None, made: Callable[[Pod | Decision], None]) -> None:
        """Create a pod in a thread; ``made`` is called in the loop, with the pod or with what to do instead."""

        def answered(result: Pod | Decision | GrassError) -> None:
            made(_failed(result) if isinstance(result, GrassError) else result)

        self._reactor.starters.ask(functools.partial(self._create, attempt, launch), answered)

    def _create(self, attempt: PodAttempt, launch: Launch | None) -> Pod | Decision:
        if launch is None or attempt.start is None:
            raise InputError(f"the launch {attempt.launch} is not defined")
        if attempt.stopping:  # its pod may exist since an earlier try, and is not wanted any more
            return self._look(attempt)
        where = self._where(attempt.start, launch)
        if isinstance(where, Decision):
            return where
        place = self._place
        body = pod(place.cluster, place.node, attempt.start, launch, self._settings, where, attempt.group)
        try:
            if attempt.group and queues.has_groups(self._settings):
                self._make_group(attempt.group, launch.gang)
            return self._api.post(place.path, body, POD)
        except GrassError as error:
            decision = after_refusal(error, attempt.name)
        return self._look(attempt) if decision.step is Step.LOOK else decision

    def _make_group(self, name: str, size: int) -> None:
        """Make the group of a gang, unless another task of it has done so."""
        own = names.node_labels(self._place.cluster, self._place.node)
        body = queues.pod_group(self._settings, name, size, own)
        try:
            self._api.post(queues.groups_path(self._place.namespace), body, ANY)
        except RefusedError as error:
            if error.http == 404:  # of the resource, not of the namespace
                raise BusyError(503, error.status, 0.0) from error
            if error.reason != "AlreadyExists":
                raise

    def _where(self, start: Start, launch: Launch) -> Mapping[str, object] | Decision:
        """Return the affinity of a pod, or what to do instead."""
        gpus = len(start.gpus)
        try:
            seen = self._machines() if needs_machines(launch, gpus) else None
        except GrassError as error:
            said = Reason(ReasonCode.RUNTIME, f"the machines of its namespace cannot be read: {error}")
            return Decision(Step.AGAIN, said, 1.0)
        found = affinity(launch, gpus, seen)
        return Decision(Step.FAIL, found) if isinstance(found, Reason) else found

    def _machines(self) -> Machines | None:
        """Return the machines, of a look that is not old. Called in threads."""
        with self._looking:
            if self._looked is None or clock.steady() - self._looked > _MACHINES_SECONDS:
                self._seen, self._looked = machines(self._api, self._settings), clock.steady()
            return self._seen

    def _look(self, attempt: PodAttempt) -> Pod | Decision:
        """Return the pod that may exist, or what to do without it."""
        try:
            found = self._api.find(f"{self._place.path}/{attempt.name}", POD)
        except RefusedError as error:
            return after_refusal(error, attempt.name)
        except GrassError:  # nobody knows
            return Decision(Step.LOOK, pause=1.0)
        if found is None:
            return Decision(Step.AGAIN)
        if not belongs(found, self._place.cluster, self._place.node, attempt.key):
            return _failed(InputError(f"the namespace already has a pod {attempt.name} that is not of this cluster"))
        return found


def _failed(error: GrassError) -> Decision:
    return Decision(Step.FAIL, Reason(ReasonCode.CANNOT_START, f"cannot start its pod: {error}"))
