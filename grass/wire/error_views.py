"""The reply of the API to a call that it refuses. The rules of ``views`` apply. Sent by the API server."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from grass.wire.version import Speaks


class ProblemView(msgspec.Struct, frozen=True):
    """One fault in a file. ``path`` is dotted; empty for the whole file."""

    path: str
    message: str


class ErrorBody(msgspec.Struct, frozen=True):
    """Why a call was refused. ``code``: of the class in ``grass.errors``; scripts may rely on it."""

    code: str
    message: str
    problems: tuple[ProblemView, ...]
    now: float | UnsetType = UNSET
    """The server's time, if the sender's clock is off."""
    speaks: Speaks | UnsetType = UNSET
    """What the server speaks; a client of another version then knows why."""


class ErrorView(msgspec.Struct, frozen=True):
    """The reply to a refused call."""

    error: ErrorBody
