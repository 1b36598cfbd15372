"""What the node-agent asks of whatever runs its attempts, and what it hears back.

``ProcessRuntime``, ``DockerRuntime`` and ``SimulatedRuntime`` are held to the same contract suite
(``tests/contract/test_runtime.py``).

The runtime may go away and come back (the shepherd is restarted). Commands given while it is away are lost. As soon as
it is there, at first and every time again, ``receive`` returns a ``Listed`` with everything it knows; whoever compares
that with what is desired repeats what got lost. Repeats are harmless: an attempt that the runtime knows is never
started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from grass.model.job import PLAIN_CONTAINER, Container
from grass.model.reasons import Reason


class Launch(NamedTuple):
    """What attempts of one component have in common. ``cwd`` None: the attempt's own scratch folder, or the folder that
    the image names.

    ``width``: at most so many of them run at once, the others wait in the runtime (None: no limit). What comes after
    ``runtime`` only containers have; ``cpu`` in thousandths of a core and ``memory`` in bytes are limits, 0 for none.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    grace: float
    width: int | None = None
    runtime: str = "process"
    image: str = ""
    cpu: int = 0
    memory: int = 0
    container: Container = PLAIN_CONTAINER


class Start(NamedTuple):
    """Start attempt ``key`` as the launch with the id ``launch`` says, with ``env`` over its environment.

    ``ports`` by name and ``gpus`` (device ids) are what it was given; processes learn of them by ``env`` alone.
    """

    key: str
    launch: str
    env: dict[str, str]
    ports: Mapping[str, int] = {}
    gpus: tuple[int, ...] = ()


class Stop(NamedTuple):
    """TERM to the group now, KILL after ``grace`` seconds. ``reason`` becomes that of the end."""

    key: str
    grace: float
    reason: Reason | None = None


class Observed(NamedTuple):
    """One attempt as the runtime knows it.

    Not ended while ``ended`` is None. ``pid`` None: not started yet, or could not be. ``started`` and ``ended`` are
    wall seconds, ``since`` the steady seconds of the start. ``code``/``signal`` are both None when nobody can know them
    (``reason`` says so) or when it was stopped before it started.
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


class Waiting(NamedTuple):
    """An attempt that cannot be started yet, and why."""

    key: str
    reason: Reason


class Listed(NamedTuple):
    """All attempts that the runtime knows: what was known before and is not in it does not exist."""

    attempts: list[Observed]


RuntimeEvent = Listed | Observed | Waiting


class Runtime(Protocol):
    def define(self, launches: dict[str, Launch]) -> None:
        """Make launches known, before the first start that names them; replaces those of the same id, also for attempts
        that wait (with the width 0 none of them starts)."""
        ...

    def drop(self, launches: Iterable[str]) -> None: ...

    def start(self, starts: list[Start]) -> None:
        """Start in this order, as far as the width of their launch allows at a time. Known attempts are left alone."""
        ...

    def stop(self, stops: list[Stop]) -> None:
        """One that has not started yet ends at once, without ever having run. Unknown and ended ones are ignored."""
        ...

    def forget(self, keys: list[str]) -> None:
        """Ended attempts need not be kept any more. Others are ignored."""
        ...

    def receive(self) -> list[RuntimeEvent]:
        """What happened since the last call, without waiting: ``Listed`` after a (re)connection, then changes."""
        ...

    def fileno(self) -> int:
        """Readable when ``receive`` has something; the same descriptor for the life of the runtime."""
        ...

    def due(self) -> float | None:
        """Steady time at which ``receive`` wants to be called even if nothing became readable."""
        ...

    def trouble(self) -> Reason | None:
        """Why the node shall get no tasks: what runs them does not answer. None: it answers, or it is its owner's
        business and what waits for it says so (``Waiting``)."""
        ...

    def roots(self) -> list[int]:
        """Processes of the runtime itself whose descendants are tasks. May be called in any thread."""
        ...

    def close(self) -> None:
        """Let go of the runtime; attempts run on."""
        ...
