"""Decoding what a hash of the store holds. An error names the key and the field: that is what is damaged.

Used by the three facades.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

from grass.errors import UndecodableError
from grass.wire.codec import Form

T = TypeVar("T")
log = logging.getLogger("grass.store")


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


def sound(form: Form[T], key: str, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, T]]:
    """Fields and values, without those that cannot be decoded: one damaged record does not take a list from everybody.
    Each is named in the log, once. Who asks for that record alone gets the error."""
    for field, text in texts:
        try:
            yield field, decoded(form, key, field, text)
        except UndecodableError as error:
            _tell(str(error))


@lru_cache(maxsize=1000)
def _tell(damage: str) -> None:
    log.error("%s; left out of lists", damage)
