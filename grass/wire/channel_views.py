"""Replies of the API about channels: commands beside tasks, and forwarded ports. Sent by the API server.

Output and input come from nodes as they are here (``node_api``). Bytes are base64 in JSON.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class ExecStarted(msgspec.Struct, frozen=True):
    """A command was started. ``attempt``: the one beside which it runs."""

    id: str
    """Id of the command's session."""
    node: str
    attempt: int


class ExecOutput(msgspec.Struct, frozen=True):
    """Output since the position that was asked for."""

    chunks: tuple[tuple[Literal["stdout", "stderr"], bytes], ...]
    """Stream and base64."""
    next: int
    """Send it as ``after`` to get what follows."""
    code: int | None
    """Exit code, once the command has ended and all of its output was sent."""
    pause: float = 0.0
    """Seconds after which to ask again, if too many wait already."""


class ForwardStarted(msgspec.Struct, frozen=True):
    """A way to a port is open."""

    id: str
    """Id of the forward."""
    task: str
    node: str
    port: str
    """Name of the port."""


class ForwardOutput(msgspec.Struct, frozen=True):
    """What tasks sent, of all connections of a forward."""

    chunks: tuple[tuple[int, bytes | None], ...]
    """Connection and base64. None: the task has closed it."""
    next: int
    """Send it as ``after`` to get what follows."""
    over: bool
    """Nothing follows: the task has ended."""
    pause: float = 0.0
    """Seconds after which to ask again, if too many wait already."""


class Accepted(msgspec.Struct, frozen=True):
    """What was taken of a piece of input."""

    taken: int
    """Bytes that were accepted: of this piece, or of a connection in all. Send the rest again."""
