"""The interface between the node-agent's loop and a runtime.

``ProcessRuntime``, ``DockerRuntime`` and ``SimulatedRuntime`` pass the same contract tests
(``tests/contract/test_runtime.py``). Used by this package and ``node.agent``.

A runtime may go away and come back (a restarted shepherd). Commands given meanwhile are lost. Each time it is back, and
at first, ``receive`` returns a ``Listed`` with all its attempts; the node-agent compares that with the desired state
and repeats the lost commands. Repeats are harmless: a known attempt is never started again.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from grass.model.job import PLAIN_CONTAINER, Container, GpuNeed
from grass.model.reasons import Reason
from grass.model.runtime import RuntimeName
from node.runtime.shepherd_messages import Spent

ANY_GPU = GpuNeed()


class Launch(NamedTuple):
    """What the attempts of one component share. ``cwd`` None: the attempt's scratch folder, or the folder that the
    image names.

    ``width``: most of them that run at once; the others wait in the runtime (None: no limit). ``image`` and
    ``container`` are for containers only. ``cpu`` (thousandths of a core) and ``memory`` (bytes) are limits of
    containers, and with ``user`` of processes; 0: none was asked for.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    grace: float
    width: int | None = None
    runtime: RuntimeName = RuntimeName.PROCESS
    image: str = ""
    cpu: int = 0
    memory: int = 0
    container: Container = PLAIN_CONTAINER
    user: str = ""
    """Whose account it runs under, on a node that isolates users; empty: that of the daemons."""
    awaited: tuple[str, ...] = ()
    """With ``user``: ids of the jobs whose output it sees."""
    read_only_data: bool = False
    """With ``user``: it may only read the files of users in the share."""
    defaults: Mapping[str, str] = {}
    """Variables of a container that its image does not set."""
    timeout: float | None = None
    """Seconds of its time limit, for an engine that can enforce it while Grass is away."""
    files: Mapping[str, str] = {}
    """For pods, which see no folder of this node: path → text of the files of its job. Defined again, the running ones
    see the new text."""
    where: Mapping[str, tuple[str, ...]] = {}
    """In a namespace of Kubernetes: label → values that its machine must have one of."""
    gang: int = 0
    """In a namespace of Kubernetes: how many tasks of its gang are there; 0: it is of none."""
    gpu: GpuNeed = ANY_GPU
    """In a namespace of Kubernetes: which GPUs its machine must have, if it gets some."""
    keep: int = 0
    """Bytes in /dev/shm that are kept of a task for its next attempt here, at most. 0: nothing is kept."""
    stop_signal: int = signal.SIGTERM
    """What stops its attempts, before KILL. Pods get TERM."""


class Start(NamedTuple):
    """Start attempt ``key`` by the launch ``launch``; ``env`` overrides the launch's environment.

    ``ports`` (by name) and ``gpus`` (device ids) are allocated to it. Processes learn of them through ``env`` only.
    ``programs``: (file of this node, path in its container) of programs that Grass puts into a container.
    """

    key: str
    launch: str
    env: dict[str, str]
    ports: Mapping[str, int] = {}
    gpus: tuple[int, ...] = ()
    programs: tuple[tuple[str, str], ...] = ()
    late: Mapping[str, str] = {}
    """For pods: variables as they are now. What counts is their value when the task begins."""
    awaits: str = ""
    """For pods: what the task must wait for before it begins; a later start of the same attempt says that it need not
    wait any more."""


class Stop(NamedTuple):
    """Send TERM to the group now and KILL after ``grace`` seconds. ``reason`` becomes the reason of its end."""

    key: str
    grace: float
    reason: Reason | None = None


class Observed(NamedTuple):
    """One attempt as the runtime knows it.

    ``ended`` None: it has not ended. ``started`` None: it did not start. ``pid`` None: it did not start, or its
    container was over before the engine was asked for its process. ``started`` and ``ended`` are wall seconds,
    ``since`` is the steady time of the start. ``code`` and ``signal`` are both None if the end is unknown (``reason``
    says so) or if it was stopped before it started.
    """

    key: str
    pid: int | None
    started: float | None
    since: float | None
    stopping: bool
    ended: float | None
    code: int | None
    signal: int | None
    reason: Reason | None
    sizes: dict[str, int] | None
    spent: Spent | None = None
    """Set at its end, if the runtime reaped its first process itself."""
    prepared: float | None = None
    """Wall seconds at which its image was there, if it had to wait for the image."""
    image: str | None = None
    """Digest of its image, as the engine says it. None: no image, or not known yet."""
    address: str | None = None
    """Where others reach it, if that is not the address of its node. None: it is, or it is not known yet."""
    machine: str | None = None
    """The machine of a namespace of Kubernetes on which its pod is."""
    leaving: Reason | None = None
    """Why Kubernetes is ending it while it runs. None: it is not."""
    log_gaps: int = 0
    """Places in its output where lines are missing, because Kubernetes removed them before they were read."""


class Waiting(NamedTuple):
    """An attempt that cannot be started yet, and why."""

    key: str
    reason: Reason


class Listed(NamedTuple):
    """All attempts of the runtime. An attempt that is not in the list does not exist."""

    attempts: list[Observed]


RuntimeEvent = Listed | Observed | Waiting


class Runtime(Protocol):
    def define(self, launches: dict[str, Launch]) -> None:
        """Define launches, before the first start that names them. Replaces those with the same key, also for attempts
        that wait (with width 0 none of them starts)."""
        ...

    def drop(self, launches: Iterable[str]) -> None:
        """Forget launches whose attempts have ended, and remove what is kept of them."""
        ...

    def let_go(self, tasks: Iterable[str]) -> None:
        """Remove what is kept of tasks (``<job id>/<component>.<index>``) that do not start here again."""
        ...

    def start(self, starts: list[Start]) -> None:
        """Start attempts in this order, within the width of their launch. Known attempts are ignored, except for what a
        pod is told later (``Start.late``, ``awaits``)."""
        ...

    def stop(self, stops: list[Stop]) -> None:
        """Stop attempts. One that has not started ends at once. Unknown and ended attempts are ignored."""
        ...

    def forget(self, keys: list[str]) -> None:
        """Forget ended attempts. Others are ignored."""
        ...

    def receive(self) -> list[RuntimeEvent]:
        """Return the events since the last call, without waiting: ``Listed`` after a (re)connection, then changes."""
        ...

    def fileno(self) -> int:
        """Return a descriptor that is readable when ``receive`` has events; the same for the life of the runtime."""
        ...

    def due(self) -> float | None:
        """Return the steady time at which ``receive`` must be called even if nothing became readable."""
        ...

    def trouble(self) -> Reason | None:
        """Return why the node must get no tasks: its runtime does not answer. None: it answers, or its owner may stop
        it, and attempts that wait for it say so (``Waiting``)."""
        ...

    def roots(self) -> list[int]:
        """Return pids of the runtime's own processes whose descendants are tasks. May be called in any thread."""
        ...

    def close(self) -> None:
        """Disconnect; attempts run on."""
        ...
