"""The ``RuntimeKind`` of pods. Loaded by the registry, by its name."""

from __future__ import annotations

import math
import select
from collections.abc import Callable, Sequence
from contextlib import closing

from grass.backoff import Backoff
from grass.errors import GrassError, InputError, UnreachableError
from grass.kubernetes import registry
from grass.kubernetes.command import PodCommand
from grass.kubernetes.names import FINALIZER, node_labels, pod_name, selector
from grass.kubernetes.ports import answers
from grass.kubernetes.queues import has_groups
from grass.kubernetes.trial import server_of
from grass.node_config import NodeHome
from grass.system import clock
from node.runtime.kind import Execution, SignedOff, Trial
from node.runtime.kubernetes.execution import PodExecution
from node.runtime.kubernetes.judge import TASK
from node.runtime.kubernetes.keeper import is_there
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.processes import listens
from node.runtime.kubernetes.reach import PodReach, running_pod
from node.runtime.kubernetes.removal import sweep
from node.runtime.kubernetes.runtime import PodRuntime
from node.runtime.protocol import Launch

_GLANCE, _LOOK_SECONDS = 0.2, 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.3, 3.0
"""Seconds between two looks of a readiness check."""


def place_of(config: NodeHome) -> Place:
    """Raises InputError also for settings without the id of the cluster: its pods could be another cluster's."""
    settings, folder = config.namespace, str(config.node_dir / "attempts")
    if not settings.cluster_id:
        raise InputError(f"node {config.node.name}: its settings have no cluster_id; remove the node and add it again")
    return Place(settings.cluster_id, config.node.name, settings.namespace, folder, str(config.data_dir / "jobs"))


class KubernetesKind:
    def version(self) -> str:
        return ""

    def open(self, config: NodeHome, share_is_mounted: Callable[[], bool], signed_off: SignedOff) -> PodRuntime:
        return PodRuntime(server_of(config.namespace), place_of(config), config.namespace)

    def execute(self, config: NodeHome, key: str, argv: list[str], size: tuple[int, int] | None) -> Execution:
        server, path = server_of(config.namespace), _path(config, key)
        with closing(server):
            found = running_pod(server, path, key)
            return PodExecution(server, path, argv, size, shell=is_there(found))

    def reach(self, config: NodeHome, key: str) -> PodReach:
        return PodReach(server_of(config.namespace), _path(config, key), key)

    def first_process(self, config: NodeHome, key: str) -> int:
        raise InputError("stacks of pods are not collected yet; run py-spy in the pod with `grass job exec`")

    def programs(self, config: NodeHome, image: str, wanted: Sequence[str]) -> tuple[str, ...] | None:
        return None

    def inside(self, config: NodeHome, key: str, argv: list[str], launch: Launch) -> PodInside:
        return PodInside(config, key, argv)

    def sweep(self, config: NodeHome, *, remove: bool) -> None:
        place = place_of(config)
        try:
            with closing(server_of(config.namespace)) as server:
                sweep(server, place, remove=remove, groups=has_groups(config.namespace))
                if remove:
                    registry.remove(server, config.namespace, node_labels(place.cluster, place.node))
        except GrassError as error:
            labels = selector(place.cluster, place.node)
            raise UnreachableError(
                f"namespace {place.namespace}: pods of node {place.node} may be left there: {error}; "
                f"`kubectl delete pods -l {labels}` ends them, and they are gone without their finalizer {FINALIZER}"
            ) from error

    def trial(self, config: NodeHome, said: str, gpus: Sequence[int]) -> Trial:
        raise InputError("a namespace of Kubernetes is not probed")


class PodInside:
    """An ``Inside`` of a pod, through the API server. Each look is a connection to it and a process on the machine of
    the pod, so after each one the result stays for a while: the longer, the more there were."""

    def __init__(self, config: NodeHome, key: str, argv: list[str]) -> None:
        self._server, self._path, self._key = server_of(config.namespace), _path(config, key), key
        self._argv = argv
        self._shell: bool | None = None
        self._pause = Backoff(FIRST_PAUSE, LONGEST_PAUSE, 1.5)
        self._next = -math.inf
        self._answers = False
        self._failure = ""

    def answers(self, port: int) -> bool:
        if self._is_due():
            try:
                self._answers = self._listens(port)
            finally:
                self._wait()
        return self._answers

    def failure(self, seconds: float, cancelled: Callable[[], bool]) -> str:
        if self._is_due():
            try:
                self._failure = self._look(seconds, cancelled)
            finally:
                self._wait()
        return self._failure

    def _listens(self, port: int) -> bool:
        """Port forwarding alone only shows that nothing was refused for a while."""
        if not self._has_shell():
            return answers(self._server, self._path, port)
        with closing(PodCommand(self._server, self._path, TASK, listens(port), _LOOK_SECONDS)) as command:
            return command.code() == 0

    def _has_shell(self) -> bool:
        if self._shell is None:
            with closing(self._server):
                self._shell = is_there(running_pod(self._server, self._path, self._key))
        return self._shell

    def _is_due(self) -> bool:
        return clock.steady() >= self._next

    def _wait(self) -> None:
        self._next = clock.steady() + self._pause.next()

    def _look(self, seconds: float, cancelled: Callable[[], bool]) -> str:
        until = clock.steady() + seconds
        try:
            running = PodExecution(self._server, self._path, self._argv, None, shell=self._has_shell())
        except GrassError as error:
            return f"its check cannot run: {error}"
        [output], ready = running.descriptors(), select.poll()  # not select.select: numbers may be large
        ready.register(output, select.POLLIN)
        try:
            while not cancelled() and clock.steady() < until:
                if ready.poll(_GLANCE * 1000) and running.read(output) is None:
                    code = running.code()
                    return f"its check ended with exit code {code}" if code else ""
            return f"its check did not end within {seconds:g} s"
        finally:
            running.end()


def _path(config: NodeHome, key: str) -> str:
    place = place_of(config)
    return f"{place.path}/{pod_name(place.cluster, key)}"


KIND = KubernetesKind()
