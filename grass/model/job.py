"""A job as users describe it: components and their policies. Frozen; made by ``grass.manifest``.

``grass.wire.codec`` defines the form in redis and in messages: JSON objects of these fields.
Durations are seconds, sizes bytes, cpu thousandths of a core.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

from grass.model.autoscale import Autoscale
from grass.model.ending import PLAIN_ENDING, Ending
from grass.model.framework import Framework
from grass.model.lifecycle import JobState
from grass.model.notify import OnEnd, OnHang
from grass.model.resources import Resources
from grass.model.runtime import RUNTIMES, RuntimeName

_P = TypeVar("_P")
EXIT_DO_NOT_RESTART = 64
EXIT_STOP_JOB = 65
DEFAULT_GRACE = 10.0
DEFAULT_OUTPUT_LIMIT = 1 << 30
LEAST_OUTPUT_LIMIT = 1 << 20
DEFAULT_TASK_CPU = 1000
DEFAULT_METRIC = "cpu"
MAX_PRIORITY = 1000
"""Highest priority of a job; the lowest is 0."""
DEFAULT_RESOURCES = Resources(cpu=DEFAULT_TASK_CPU)
"""The default of a task: one core and no reserved memory, so that a laptop is never overloaded."""


class Condition(str, Enum):
    """The state that a component must have reached before a component that depends on it starts."""

    RUNNING = "running"
    READY = "ready"
    SUCCEEDED = "succeeded"


class RestartOn(str, Enum):
    """When a task that has ended starts again."""

    NEVER = "never"
    ON_FAILURE = "on-failure"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart policy. ``limit``: restarts per task (None: no limit).

    Waits double from ``backoff``, up to one minute. ``codes``: the exit codes after which a task restarts, where a
    signal counts as 128 plus its number (empty: every failure). ``memory``: bytes up to which the memory of the tasks
    grows, once, after one of them was ended because it used more than it has (None: it does not grow).
    """

    policy: RestartOn = RestartOn.NEVER
    limit: int | None = 3
    backoff: float = 1.0
    codes: tuple[int, ...] = ()
    memory: int | None = None


NO_RESTART = Restart()


class ExitCodes(str, Enum):
    """What the exit codes of a task mean besides success and failure."""

    SPECIAL = "special"
    """``EXIT_DO_NOT_RESTART`` and ``EXIT_STOP_JOB`` are instructions of the task, as in MARO."""
    PLAIN = "plain"
    """All are failures like any other. In sysexits, 64 and 65 are EX_USAGE and EX_DATAERR."""


@dataclass(frozen=True, slots=True)
class Ready:
    """One readiness check; exactly one of the three is set. ``timeout``: seconds from the start of the attempt."""

    port: str | None = None
    command: tuple[str, ...] | str | None = None
    log: str | None = None
    timeout: float | None = None


class NoticeSignal(str, Enum):
    """What can be sent with a notice."""

    HUP = "HUP"
    INT = "INT"
    TERM = "TERM"
    USR1 = "USR1"
    USR2 = "USR2"


LONGEST_NOTICE = 86_400.0


class StopSignal(str, Enum):
    """What stops a task, before KILL. Each can be caught, and is passed on by the init of containers."""

    HUP = "HUP"
    INT = "INT"
    QUIT = "QUIT"
    TERM = "TERM"
    USR1 = "USR1"
    USR2 = "USR2"


class Keep(str, Enum):
    """What of a task is kept on its node from one attempt to the next."""

    SHM = "shm"
    """What it has in /dev/shm."""


class Replace(str, Enum):
    """Which tasks Grass itself replaces while they run."""

    SLOW = "slow"
    """Those that are slower than the others of their component."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What a task is told before it is stopped while its job goes on, so that it can save its work.

    ``seconds``: how long it may take until it says that it is done. ``signal``: is sent to its first process.
    ``command``: runs beside it; its end means that it is done.
    """

    seconds: float = 60.0
    signal: NoticeSignal | None = None
    command: tuple[str, ...] | str | None = None


NODE_LEVEL = 99
"""Topology level of the node itself. Levels 1, 2, … are the first parts of a node's path (``rack1/switch3``)."""


@dataclass(frozen=True, slots=True)
class GpuNeed:
    """The GPUs that match; ``Resources.gpu`` has their number.

    ``model``: part of the name that NVML gives, in any case (None: any). ``memory``: the least bytes of each GPU.
    """

    model: str | None = None
    memory: int = 0

    def matches(self, model: str, memory: int) -> bool:
        """Return whether a device matches. Kubernetes writes `-` for each space of a model's name."""
        wanted = self.model
        return memory >= self.memory and (wanted is None or _spaced(wanted) in _spaced(model))


def _spaced(model: str) -> str:
    return model.casefold().replace("-", " ")


class Policy(str, Enum):
    """How to rank the nodes on which a task fits. The policies with a metric come from MARO."""

    BEST_FIT = "best-fit"
    BALANCED = "single-metric-balanced"
    COMPACTED = "single-metric-compacted"


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the host to mount into a container. The cluster's settings list the allowed paths.

    ``shared``: ``source`` is a folder of the share instead, with the share as its root.
    """

    source: str
    target: str
    read_only: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Container:
    """Settings of containers only. ``shm``: bytes of /dev/shm (None: the engine's default).

    ``network``: host or bridge. ``data``: where the share is mounted inside (None: at the host's path).
    """

    entrypoint: tuple[str, ...] | None = None
    user: str | None = None
    shm: int | None = None
    network: str = "host"
    ulimits: dict[str, int] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    data: str | None = None


PLAIN_CONTAINER = Container()
_PLAIN_GPU = GpuNeed()
_EMPTY: dict[str, Any] = {}  # Any: the default of mappings whose values have different types


@lru_cache(maxsize=4096)
def _same(part: _P) -> _P:
    """Return the first object that is equal to ``part``."""
    return part


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a job.

    ``command``: a string is run by /bin/sh, a tuple is an argv. ``parallelism``: most tasks at once (None: all).

    ``where``: label → allowed values. ``avoid``: names of nodes. ``spread``, ``pack``: a topology level; tasks are
    spread evenly over the domains of that level, or kept in one of them.
    ``min``, ``max``: bounds of the component's size while the job runs (None: no bound); it begins with ``replicas``.
    ``min`` tasks start together; the job runs as long as it has so many. ``unit``: each size is a multiple of it.
    ``autoscale``: how Grass itself changes the size between them (None: it does not).
    ``matrix``: name → values; task ``i`` gets the ``i``-th combination, the last name varying fastest, and
    ``replicas`` is the number of combinations.
    ``entries``: task ``i`` gets the ``i``-th one; ``replicas`` is their number. ``columns``: name → values; task ``i``
    gets the ``i``-th value of each, and ``replicas`` is the length of all of them.
    ``web``: the port with a web page, which `grass job open` shows.
    ``output_limit``: bytes that the log of a task may take; beyond it, what is between beginning and end is dropped.
    ``output_file``: the pattern of the files in which a pull of the job puts that log (``output_name``; None: in none).
    ``runtime``: None: the node chooses (``runtime_of``).
    ``shell``: selected variables of the shell that submitted the job, for processes on a cluster of one machine. They
    replace those that the node inherited.
    ``base``: the folder of the job's file. On a cluster of one machine, processes start there and ``cwd`` is relative
    to it. Without it (several hosts, containers), ``cwd`` is relative to the share.
    ``check``: the level of the check that a node must have passed before tasks start there (None: none).
    ``grown_from``: the memory of its tasks in the job file, before it grew (``Restart.memory``).
    ``checks``: the node that its one task holds for a check (empty: none). The task goes there alone, also if the node
    is cordoned, or in quarantine because of a check. No job file can say it.
    """

    name: str
    command: str | tuple[str, ...]
    replicas: int = 1
    resources: Resources = DEFAULT_RESOURCES
    ports: tuple[str, ...] = ()
    depends_on: dict[str, Condition] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    restart: Restart = NO_RESTART
    ready: Ready | None = None
    grace: float = DEFAULT_GRACE
    notice: Notice | None = None
    timeout: float | None = None
    parallelism: int | None = None
    image: str | None = None
    framework: Framework | None = None
    gpu: GpuNeed = _PLAIN_GPU
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    avoid: tuple[str, ...] = ()
    spread: int | None = None
    pack: int | None = None
    matrix: dict[str, tuple[str, ...]] = field(default_factory=dict)
    entries: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    base: str | None = None
    shell: tuple[tuple[str, str], ...] = ()
    process: tuple[tuple[str, int], ...] = ()
    runtime: RuntimeName | None = None
    container: Container = PLAIN_CONTAINER
    min: int | None = None
    max: int | None = None
    unit: int = 1
    autoscale: Autoscale | None = None
    web: str | None = None
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    checks: str = ""
    keep: Keep | None = None
    stop_signal: StopSignal = StopSignal.TERM
    check: int | None = None
    replace: Replace | None = None
    grown_from: int | None = None
    exit_codes: ExitCodes = ExitCodes.SPECIAL
    output_file: str | None = None

    def instructs(self, code: int | None) -> bool:
        """Return whether a task that ends with this code thereby says what is to happen."""
        return self.exit_codes is ExitCodes.SPECIAL and code in (EXIT_DO_NOT_RESTART, EXIT_STOP_JOB)

    @property
    def elastic(self) -> bool:
        """Return whether the job file allows other sizes than ``replicas``."""
        return self.min is not None or self.max is not None

    @property
    def fixed_by(self) -> str:
        """The key of the job file that says what each task gets, and so how many there are; empty: there is none."""
        return "matrix" if self.matrix else "from" if self.entries or self.columns else ""

    def __post_init__(self) -> None:
        """Share equal parts among components, so that a queue of thousands of components has few part objects."""
        put = object.__setattr__
        put(self, "name", _same(self.name))
        put(self, "resources", _same(self.resources))
        put(self, "restart", _same(self.restart))
        put(self, "gpu", _same(self.gpu))
        put(self, "shell", _same(self.shell))
        if self.container == PLAIN_CONTAINER:
            put(self, "container", PLAIN_CONTAINER)
        for name in ("depends_on", "env", "where", "matrix", "columns"):
            if not getattr(self, name):
                put(self, name, _EMPTY)


def runtime_of(component: Component, offered: Collection[str] = RUNTIMES) -> RuntimeName:
    """Return the runtime of a component's tasks: the one it asks for, or otherwise the first of ``offered`` that suits.

    ``offered``: the names of a node's runtimes, in its order. A namespace of Kubernetes may have an image for tasks
    without one. The result may be a runtime that the node does not offer; the start then fails with that reason.
    """
    if component.runtime is not None:
        return component.runtime
    known = [RuntimeName(name) for name in offered if name in RUNTIMES]  # a newer node may know others
    suits = [each for each in known if each.contained is bool(component.image)]
    if not suits and RuntimeName.KUBERNETES in known:
        return RuntimeName.KUBERNETES
    return suits[0] if suits else RuntimeName.PROCESS


class AfterState(str, Enum):
    """What a job to wait for must have reached."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ENDED = "ended"

    def allows(self, end: JobState) -> bool:
        """Return whether a job that ended so has reached it."""
        return self is AfterState.ENDED or end.value.lower() == self.value


@dataclass(frozen=True, slots=True)
class After:
    """A job to wait for, by name or id, and the state that it must reach.

    ``same_tasks``: task ``i`` waits only until task ``i`` of that job has succeeded. Each job then has one component,
    and both have as many tasks. ``past``: the job was there when this one was submitted, so if it is not, it has ended
    and was deleted.
    """

    job: str
    state: AfterState = AfterState.SUCCEEDED
    same_tasks: bool = False
    past: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A job.

    ``success``: the components that must succeed; the other components are stopped after these have succeeded.
    ``fail_fast``: the first task that fails for good ends the job; otherwise the other tasks go on and the job fails at
    its end. ``gang``: components whose tasks start all together or not at all. ``policy`` ranks nodes, by ``metric`` (a
    resource) if the policy needs one. ``together``: all tasks in one domain of this topology level. ``preemptible``:
    the job may be stopped and queued again for a job of higher priority. ``ending``: when it succeeds, whether it
    starts again, and what is removed after its end. ``carried``: in a rerun of what failed, by component the ranges
    (first, last) of indexes that succeeded in the earlier run; they count as SUCCEEDED. ``files``: digests of the files
    that its commands name, as they were when it was submitted; in the share they begin with ``$GRASS_DATA/``.
    ``read_only_data``: its tasks may only read the files of users in the share, on nodes that isolate users.
    """

    name: str
    components: dict[str, Component]
    success: tuple[str, ...]
    timeout: float | None = None
    fail_fast: bool = True
    priority: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    dialect: str = "native"
    gang: tuple[str, ...] = ()
    policy: Policy = Policy.BEST_FIT
    metric: str = DEFAULT_METRIC
    together: int | None = None
    preemptible: bool = False
    after: tuple[After, ...] = ()
    ending: Ending = PLAIN_ENDING
    carried: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    on_end: OnEnd | None = None
    on_hang: OnHang = OnHang.NOTIFY
    files: dict[str, str] = field(default_factory=dict)
    read_only_data: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "success", _same(self.success))
        if self.ending == PLAIN_ENDING:
            object.__setattr__(self, "ending", PLAIN_ENDING)
        object.__setattr__(self, "dialect", _same(self.dialect))
        object.__setattr__(self, "metric", _same(self.metric))
        for name in ("tags", "carried", "files"):
            if not getattr(self, name):
                object.__setattr__(self, name, _EMPTY)

    @property
    def follows_tasks(self) -> bool:
        """Return whether its tasks wait for tasks of another job."""
        return any(after.same_tasks for after in self.after)

    @property
    def task_count(self) -> int:
        return sum(component.replicas for component in self.components.values())
