"""The errors of the API's replies as exceptions. Called by clients of the API. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grass.errors import (
    CertificateError,
    CommandNotExecutableError,
    CommandNotFoundError,
    ConflictError,
    GrassError,
    InputError,
    ManifestError,
    MasterAwayError,
    NodeUnreachableError,
    NotAllowedError,
    NotFoundError,
    Problem,
    StoreFullError,
    StoreRefusesError,
    TooManyCallsError,
    UnreachableError,
    WaitTimeoutError,
)

_ERRORS: dict[str, type[GrassError]] = {
    error.code: error
    for error in (
        InputError,
        CommandNotExecutableError,
        CommandNotFoundError,
        ConflictError,
        NotFoundError,
        NotAllowedError,
        UnreachableError,
        CertificateError,
        NodeUnreachableError,
        StoreRefusesError,
        StoreFullError,
        TooManyCallsError,
        MasterAwayError,
        WaitTimeoutError,
    )
}


def error_of(wire: Mapping[str, Any]) -> GrassError:  # Any: decoded JSON
    """Return an error as an exception. ``wire``: ``{"code", "message"}``, and ``problems`` of a wrong document."""
    if wire["code"] == ManifestError.code:
        return ManifestError([Problem(problem["path"], problem["message"]) for problem in wire.get("problems", ())])
    return _ERRORS.get(wire["code"], GrassError)(wire["message"])
