"""Encodes and decodes typed values: the only module that knows the encoding (compact JSON, by msgspec).

Called by the facades of the store, the daemons and the API. It must not know any particular message.
"""

from __future__ import annotations

import json
import threading
from typing import Any, Generic, TypeVar

import msgspec

from grass.errors import UndecodableError

T = TypeVar("T")
_encoder = msgspec.json.Encoder()


def encode(value: object) -> str:
    """Return compact JSON. Characters that UTF-8 cannot encode (from undecodable file names) become ``?``."""
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode("utf-8", "replace").decode()


def packed(value: object) -> bytes:
    """Return compact JSON. Log lines that are not UTF-8 arrive unchanged: their characters are escaped."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def indented(value: object) -> str:
    """Return indented JSON for people, such as settings files."""
    return msgspec.json.format(encode(value), indent=2) + "\n"


def builtins(value: object) -> Any:
    """Convert to plain dicts, lists, strings and numbers."""
    return msgspec.to_builtins(value)


_building = threading.Lock()


class Form(Generic[T]):
    """A decoder of one type. Created once per type at the top of a module; the msgspec decoder is built at first use.

    ``Form[Ticket](Ticket)`` names the type twice, because a union is not a ``type[T]`` for type checkers.
    """

    def __init__(self, shape: Any) -> None:
        self._shape = shape
        self._decoder: msgspec.json.Decoder[T] | None = None

    def decode(self, text: str | bytes) -> T:
        """Decode text. Raises UndecodableError, which says what is wrong and where."""
        decoder = self._decoder or self._build()
        try:
            return decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise _undecodable(error) from error

    def _build(self) -> msgspec.json.Decoder[T]:
        """Build the decoder, one thread at a time: msgspec shows other threads what it knows of a type before it is
        complete, and they would crash with it."""
        with _building:
            if self._decoder is None:
                self._decoder = msgspec.json.Decoder(self._shape)
            return self._decoder

    def convert(self, value: object) -> T:
        """Convert plain dicts and lists. Raises UndecodableError."""
        if self._decoder is None:
            self._build()
        try:
            made: T = msgspec.convert(value, self._shape, str_keys=True)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _undecodable(error) from error
        return made


def _undecodable(error: Exception) -> UndecodableError:
    """Translate msgspec's error, ``what - at `$.path` `` or ``- at `key` in `$.path` ``. It names no keys of dicts."""
    what, found, where = str(error).rpartition(" - at ")
    path = where.rpartition("$")[2].strip("`").removeprefix(".") if found else ""
    return UndecodableError(path, (what if found else where).replace("`", ""))
