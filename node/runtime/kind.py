"""What one way to run attempts offers to the programs of a node. ``registry`` names them all.

``Runtime`` (protocol.py) is what the node-agent's loop drives. A ``RuntimeKind`` opens it, and does what other
programs and threads need of its attempts: commands beside them, readiness checks, the trial of a node that joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from grass.config import ClusterConfig
from node.runtime.protocol import Launch, Runtime

Output = list[tuple[str, bytes]]
"""Pieces of what a command printed: ``stdout`` or ``stderr``, and bytes."""


class Execution(Protocol):
    """A command beside a running attempt: with its environment in its working folder, or in its container."""

    def descriptors(self) -> list[int]:
        """To be watched; ``read`` those that become readable."""
        ...

    def read(self, descriptor: int) -> Output | None:
        """What its streams printed. None: it is over for good."""
        ...

    def write(self, data: bytes) -> int:
        """How much of it was taken; waits a moment for somebody who does not read."""
        ...

    def end_input(self) -> None: ...
    def resize(self, rows: int, columns: int) -> None: ...
    def code(self) -> int:
        """How it ended, as a shell says it; to be called when all descriptors are over."""
        ...

    def end(self) -> None:
        """End it if it has not, and let go of everything."""
        ...


class Inside(Protocol):
    """What a readiness check needs of an attempt that does not see the host as it is. Used by one thread at a time."""

    def addresses(self) -> tuple[str, ...] | None:
        """Where its ports answer, as far as that is known now; None: where the host's do. Raises GrassError."""
        ...

    def failure(self, seconds: float, cancelled: Callable[[], bool]) -> str:
        """Why its command has not ended with 0 within ``seconds``; empty when it has."""
        ...


class Trial(NamedTuple):
    """How to show that attempts can run here: a launch that prints a given line and ends with 0."""

    runtime: Runtime
    launch: Launch
    advice: str
    """What to do where it does not end like that."""


class RuntimeKind(Protocol):
    @property
    def host_view(self) -> bool:
        """Its attempts see the host as it is, and inherit the node-agent's environment. Otherwise they run in an
        image, and see what is mounted for them."""
        ...

    def open(self, config: ClusterConfig, share_is_mounted: Callable[[], bool]) -> Runtime:
        """For the node-agent's loop."""
        ...

    def execute(self, config: ClusterConfig, key: str, argv: list[str], size: tuple[int, int] | None) -> Execution:
        """Start a command beside attempt ``key``. ``size``: rows and columns of a terminal; None: no terminal, and
        stdout and stderr apart.

        Raises NotFoundError (it has no such attempt), ConflictError (that does not run now), InputError (the command
        cannot be started) or UnreachableError.
        """
        ...

    def inside(self, config: ClusterConfig, key: str, argv: list[str], launch: Launch) -> Inside | None:
        """For the readiness check of an attempt; ``argv`` is empty where it runs no command. None: on the host."""
        ...

    def trial(self, config: ClusterConfig, said: str, gpus: Sequence[int]) -> Trial:
        """``said`` is what is to be printed; where there are ``gpus`` it has to see one. Raises GrassError."""
        ...
