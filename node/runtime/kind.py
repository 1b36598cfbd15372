"""The interface of a kind of runtime. ``registry`` names all kinds.

The node-agent's loop drives a ``Runtime`` (protocol.py). A ``RuntimeKind`` opens it, and serves other programs and
threads: commands beside attempts, ports of attempts, readiness checks, the trial of a node that joins. Used by
``registry``, ``node.agent`` and ``node.api``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from socket import socket
from typing import Literal, NamedTuple, Protocol

from grass.node_config import NodeHome
from node.runtime.protocol import Launch, Runtime

Stream = Literal["stdout", "stderr"]
Output = list[tuple[Stream, bytes]]
"""Pieces of what a command printed."""


class Execution(Protocol):
    """A command beside a running attempt: with its environment in its working folder, or in its container.

    It ends with its attempt."""

    @property
    def pid(self) -> int | None:
        """Its first process. None: it is in a container, as are all that it starts."""
        ...

    def descriptors(self) -> list[int]:
        """Return the descriptors to watch; call ``read`` with those that become readable."""
        ...

    def read(self, descriptor: int) -> Output | None:
        """Return new output. None: the command has ended and all output was returned."""
        ...

    def write(self, data: bytes) -> int:
        """Write to its standard input; return the number of bytes taken. Waits a moment if the command does not
        read."""
        ...

    def end_input(self) -> None: ...
    def resize(self, rows: int, columns: int) -> None: ...
    def signal(self, number: int) -> None:
        """Send a signal to the command with its process group, if it runs."""
        ...

    def code(self) -> int:
        """Return the exit code as a shell has it. To be called when ``read`` has returned None."""
        ...

    def end(self) -> None:
        """End the command if it has not ended, and release everything."""
        ...


class Inside(Protocol):
    """Readiness checks of an attempt that does not share the host's view, such as a container. For one thread at a
    time."""

    def answers(self, port: int) -> bool | None:
        """Return whether a program listens on its port. None: its ports are those of the host. Raises GrassError."""
        ...

    def failure(self, seconds: float, cancelled: Callable[[], bool]) -> str:
        """Run its command; return why it did not end with 0 within ``seconds``, empty if it did."""
        ...


class Reach(Protocol):
    """The ports of one running attempt, for connections from outside. For one thread at a time."""

    def connect(self, port: int, seconds: float) -> socket:
        """Connect to a port within ``seconds``. Raises OSError: nothing answers there."""
        ...

    def fileno(self) -> int:
        """Return a descriptor that is readable once the attempt has ended."""
        ...

    def close(self) -> None:
        """Close the descriptor; connections go on."""
        ...


class Trial(NamedTuple):
    """A launch that shows whether attempts can run here: it prints a given line and ends with 0."""

    runtime: Runtime
    launch: Launch
    advice: str
    """What the user can do if it fails."""


SignedOff = Callable[[str], str | None]
"""Returns the digest with which the master lets an image be loaded; None: it has no record of the image."""


class RuntimeKind(Protocol):
    def version(self) -> str:
        """Return the version of the engine; empty if there is none. Raises UnreachableError."""
        ...

    def open(self, config: NodeHome, share_is_mounted: Callable[[], bool], signed_off: SignedOff) -> Runtime:
        """Open the runtime, for the node-agent's loop."""
        ...

    def execute(self, config: NodeHome, key: str, argv: list[str], size: tuple[int, int] | None) -> Execution:
        """Start a command beside attempt ``key``. ``size``: rows and columns of a terminal; None: no terminal, and
        stdout and stderr apart.

        Raises NotFoundError (no such attempt), ConflictError (it does not run now), InputError (the command
        cannot be started) or UnreachableError.
        """
        ...

    def reach(self, config: NodeHome, key: str) -> Reach:
        """Return the ports of a running attempt. Raises as ``execute``."""
        ...

    def first_process(self, config: NodeHome, key: str) -> int:
        """Return the pid, on this machine, of the first process of a running attempt. Raises as ``execute``."""
        ...

    def programs(self, config: NodeHome, image: str, wanted: Sequence[str]) -> tuple[str, ...] | None:
        """Return those of ``wanted`` that a command in an image finds on its PATH. None: that is not known.

        Raises NotFoundError: there is no such image here; or another GrassError."""
        ...

    def inside(self, config: NodeHome, key: str, argv: list[str], launch: Launch) -> Inside | None:
        """Return the inside of an attempt, for its readiness check. ``argv`` is empty if the check is not a command.
        None: the check runs on the host."""
        ...

    def sweep(self, config: NodeHome, *, remove: bool) -> None:
        """End the attempts of a cluster that is stopped, where no process of Grass is their parent. Without ``remove``,
        the node-agent can still report their ends. Raises GrassError: some may remain."""
        ...

    def trial(self, config: NodeHome, said: str, gpus: Sequence[int]) -> Trial:
        """Return a trial that prints ``said`` and, if there are ``gpus``, needs to see one. Raises GrassError."""
        ...
