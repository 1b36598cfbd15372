"""Replies of the API about commands beside tasks, and about forwarded ports. Sent by the API server."""

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

    chunks: tuple[tuple[Literal["stdout", "stderr"], str], ...]
    """Stream and base64."""
    next: int
    """Send it as ``after`` to get what follows."""
    code: int | None
    """Exit code, once the command has ended and all of its output was sent."""
    pause: float
    """Seconds after which to ask again, if too many wait already."""


class ExecAccepted(msgspec.Struct, frozen=True):
    """What was taken of a piece of input."""

    taken: int
    """Bytes that were accepted. Send the rest again."""


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

    chunks: tuple[tuple[int, str | None], ...]
    """Connection and base64. None: the task has closed it."""
    next: int
    """Send it as ``after`` to get what follows."""
    over: bool
    """Nothing follows: the task has ended."""
    pause: float
    """Seconds after which to ask again, if too many wait already."""


class ForwardAccepted(msgspec.Struct, frozen=True):
    """What was taken of a piece of data."""

    taken: int
    """Bytes of the connection that were accepted in all. Send the rest again."""
