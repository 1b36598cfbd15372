"""Decodes the fields of the store's hashes. An error names the damaged key and field. Used by the facades."""

from __future__ import annotations

from typing import TypeVar

from grass.errors import UndecodableError
from grass.wire.codec import Form

T = TypeVar("T")


def decoded(form: Form[T], key: str, field: str, text: str) -> T:
    """Decode one field. Raises UndecodableError."""
    try:
        return form.decode(text)
    except UndecodableError as error:
        where = f"redis key {key}, field {field}"
        raise UndecodableError(f"{where}, {error.path}" if error.path else where, error.problem) from error


def decoded_all(form: Form[T], key: str, texts: dict[str, str]) -> dict[str, T]:
    """Decode all fields of a hash. Raises UndecodableError."""
    return {field: decoded(form, key, field, text) for field, text in texts.items()}
