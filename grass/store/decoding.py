"""Decodes the fields of the store's hashes. An error names the damaged key and field. Used by the facades."""

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
    """Decode one field. Raises UndecodableError."""
    try:
        return form.decode(text)
    except UndecodableError as error:
        where = f"redis key {key}, field {field}"
        raise UndecodableError(f"{where}, {error.path}" if error.path else where, error.problem) from error


def decoded_all(form: Form[T], key: str, texts: dict[str, str]) -> dict[str, T]:
    """Decode all fields of a hash. Raises UndecodableError."""
    return {field: decoded(form, key, field, text) for field, text in texts.items()}


def sound(form: Form[T], key: str, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, T]]:
    """Yield fields and values, without those that cannot be decoded: one damaged record must not break lists for
    everybody. Each damaged record is logged once. A read of that record alone raises the error."""
    for field, text in texts:
        try:
            yield field, decoded(form, key, field, text)
        except UndecodableError as error:
            _log_once(str(error))


@lru_cache(maxsize=1000)
def _log_once(damage: str) -> None:
    log.error("%s; the record is left out of lists", damage)
