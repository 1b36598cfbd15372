"""Checks that plain data (a request, a reply) matches a type of ``grass.wire``, to the last key."""

from __future__ import annotations

from typing import Any

import msgspec

from grass.errors import UndecodableError
from grass.wire.codec import Form, builtins


def faults(value: Any, shape: type[msgspec.Struct], what: str) -> list[str]:
    """Return the faults of ``value``, each with its path."""
    try:
        known = builtins(Form[Any](shape).convert(value))
    except UndecodableError as error:
        return [f"{what}: {error}"]
    return [f"{what}{path}" for path in _unknown(value, known, "")]


def _unknown(value: Any, known: Any, path: str) -> list[str]:
    """Return keys that the type dropped, and values that the type changed."""
    if isinstance(value, dict) and isinstance(known, dict):
        missing = [f"{path}.{key} is unknown" for key in value.keys() - known.keys()]
        return missing + [
            fault for key in value.keys() & known.keys() for fault in _unknown(value[key], known[key], f"{path}.{key}")
        ]
    if isinstance(value, (list, tuple)) and isinstance(known, (list, tuple)) and len(value) == len(known):
        pairs = zip(value, known, strict=True)
        return [fault for at, (one, other) in enumerate(pairs) for fault in _unknown(one, other, f"{path}[{at}]")]
    return [] if value == known else [f"{path}: {value!r} is read as {known!r}"]
