"""Typed values to text and back: the one place that knows the encoding (compact JSON, by msgspec).

Called by the facades of the store, the daemons and the API. Must not know any particular message.
"""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

import msgspec

from grass.errors import UndecodableError

T = TypeVar("T")
_encoder = msgspec.json.Encoder()


def encode(value: object) -> str:
    """Return compact JSON. Text that is no Unicode (a file name of undecodable bytes) gets ``?`` for what is not."""
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode("utf-8", "replace").decode()


def indented(value: object) -> str:
    """Return JSON for people to read: files of settings."""
    return msgspec.json.format(encode(value), indent=2) + "\n"


def builtins(value: object) -> Any:
    """Return the same as plain dicts, lists, texts and numbers, as JSON would have them."""
    return msgspec.to_builtins(value)


class Form(Generic[T]):
    """Decodes one type. Made once for each type, at the top of a module; the decoder itself is built at first use.

    ``Form[Ticket](Ticket)``: the type is named twice because a union is no ``type[T]`` for a type checker.
    """

    def __init__(self, shape: Any) -> None:
        self._shape = shape
        self._decoder: msgspec.json.Decoder[T] | None = None

    def decode(self, text: str | bytes) -> T:
        """Raises UndecodableError, which says what is wrong and where."""
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = msgspec.json.Decoder(self._shape)
        try:
            return decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise _undecodable(error) from error

    def convert(self, value: object) -> T:
        """The same from plain dicts and lists that were decoded before. Raises UndecodableError."""
        try:
            made: T = msgspec.convert(value, self._shape, str_keys=True)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _undecodable(error) from error
        return made


def _undecodable(error: Exception) -> UndecodableError:
    """msgspec says ``what - at `$.path` ``, or ``- at `key` in `$.path` ``; it names no keys of dicts."""
    what, found, where = str(error).rpartition(" - at ")
    path = where.rpartition("$")[2].strip("`").removeprefix(".") if found else ""
    return UndecodableError(path, (what if found else where).replace("`", ""))
