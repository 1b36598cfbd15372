"""The reply of the API to a call that it refuses. The rules of ``views`` apply."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class ProblemView(msgspec.Struct, frozen=True):
    path: str
    message: str


class ErrorBody(msgspec.Struct, frozen=True):
    code: str
    message: str
    problems: tuple[ProblemView, ...]
    now: float | UnsetType = UNSET
    """The server's time, if the sender's clock is off."""


class ErrorView(msgspec.Struct, frozen=True):
    error: ErrorBody
