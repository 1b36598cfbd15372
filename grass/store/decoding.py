"""Decoding what a hash of the store holds. An error names the key and the field: that is what is damaged.

Used by the three facades.
"""

from __future__ import annotations

from typing import TypeVar

from grass.errors import UndecodableError
from grass.wire.codec import Form

T = TypeVar("T")


def decoded(form: Form[T], key: str, field: str, text: str) -> T:
    """Raises UndecodableError."""
    try:
        return form.decode(text)
    except UndecodableError as error:
        where = f"redis key {key}, field {field}"
        raise UndecodableError(f"{where}, {error.path}" if error.path else where, error.problem) from error


def decoded_all(form: Form[T], key: str, texts: dict[str, str]) -> dict[str, T]:
    """Raises UndecodableError."""
    return {field: decoded(form, key, field, text) for field, text in texts.items()}
