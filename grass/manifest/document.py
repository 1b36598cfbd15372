"""From a file to plain values, safely: bounded in size, depth and expansion, every key once, no objects.

YAML is read as the 1.2 core schema, so ``no``, ``on`` and ``1:30`` are text. A number that would not print as it was
written stays text too: ``VERSION: 1.10`` in an environment is ``1.10``, not ``1.1``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from grass.errors import InputError, ManifestError, Problem

MAX_BYTES = 1 << 20
MAX_VALUES = 100_000
"""Values after aliases are expanded; no job needs near as many."""
MAX_DEPTH = 32

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 40
_WORD = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}


def load_document(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file (or, by its suffix, a ``.json`` file) holds.

    ManifestError: what it holds cannot be accepted. InputError: it cannot be read at all.
    """
    path = Path(path)
    return read_document(_read_bytes(path), source=str(path), json=path.suffix == ".json")


def read_document(content: bytes | str, *, source: str = "", json: bool = False) -> dict[str, Any]:
    """As ``load_document``, of content that is already here."""
    from grass.manifest import json_text, yaml_text

    try:
        text = _decode(content)
        value = json_text.parse(text) if json else yaml_text.parse(text)
    except DocumentFault as fault:
        raise ManifestError([fault.problem], source) from fault
    if not isinstance(value, dict):
        kind = "empty" if value is None else f"a {type(value).__name__}"
        raise ManifestError([Problem("", f"must hold a mapping (KEY: VALUE lines), but is {kind}")], source)
    return value


class DocumentFault(Exception):
    """Internal to the readers: why the text cannot be accepted."""

    def __init__(self, path: str, message: str) -> None:
        self.problem = Problem(path, message)
        super().__init__(str(self.problem))


def plain_scalar(text: str) -> Any:
    """The value of an unquoted word."""
    if text in _WORDS:
        return _WORDS[text]
    return number_or_text(text)


def number_or_text(text: str) -> int | float | str:
    if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text):
        number = int(text) if text.lstrip("-").isdigit() else float(text)
        if str(number) == text:
            return number
    return text


def join(path: str, key: str) -> str:
    """The dotted path to ``key``; a key that is no simple word is quoted, and cut where it is long."""
    shown = key if _WORD.fullmatch(key) else show_text(key)
    return f"{path}.{shown}" if path else shown


def show_text(text: str) -> str:
    """Text as part of a message: quoted, and at most 60 characters of it."""
    return f'"{one_line(text, 60)}"'


def one_line(text: str, limit: int = 200) -> str:
    """Text of unknown origin, fit to be printed: at most ``limit`` characters, control characters spelled out."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in cut)


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a directory; name the file in it") from error
    except PermissionError as error:
        raise InputError(f"{path}: permission denied") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r}: cannot be read: {error}") from error


def _decode(content: bytes | str) -> str:
    if isinstance(content, str):
        if len(content) > MAX_BYTES:
            raise DocumentFault("", "is larger than 1 MiB")
        return content
    if len(content) > MAX_BYTES:
        raise DocumentFault("", "is larger than 1 MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentFault("", f"line {line}: is not UTF-8 text (byte 0x{content[error.start]:02x})") from error
