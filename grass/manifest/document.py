"""Parses the text of a file to plain values: bounded in size, depth and expansion, without duplicate keys or objects.

YAML follows the 1.2 core schema, so ``no``, ``on`` and ``1:30`` are text. A number that would not print as written
stays text, too: ``VERSION: 1.10`` in an environment is ``1.10``, not ``1.1``. Used by ``grass`` and ``master``.
"""

from __future__ import annotations

import re
from typing import Any

from grass.errors import ManifestError, Problem

MAX_BYTES = 1 << 20
Document = dict[str, Any]  # Any: the readers of this package check it, and name each wrong value with its path
"""A document whose shape its user, or another system, decides: what a YAML or JSON file contains."""
MAX_VALUES = 100_000
"""Most values after aliases are expanded; no real job needs as many."""
MAX_DEPTH = 32
MAX_DOCUMENTS = 1000
"""Most documents in one file."""

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


def read_document(content: bytes | str, *, source: str = "", json: bool = False) -> Document:
    """Return the mapping in the content of a YAML or JSON file. ``source``: the name of the file.

    Raise ManifestError for content that cannot be accepted. ``grass.document_file`` reads the file itself.
    """
    from grass.manifest import json_text, yaml_text

    try:
        text = _decode(content)
        value = json_text.parse(text) if json else yaml_text.parse(text)
    except DocumentFault as fault:
        raise ManifestError([fault.problem], source) from fault
    if not isinstance(value, dict):
        kind = {type(None): "empty", list: "a list", str: "text"}.get(type(value), "a single value")
        raise ManifestError([Problem("", f"must be a mapping (KEY: VALUE lines), but is {kind}")], source)
    return value


def read_value(text: str, source: str) -> Any:
    """Return one value of a command line, read like a value of a YAML file. Raise ManifestError, with ``source``."""
    from grass.manifest import yaml_text

    try:
        return yaml_text.parse(_decode(text))
    except DocumentFault as fault:
        raise ManifestError([fault.problem], source) from fault


def read_documents(content: bytes | str, *, source: str = "", json: bool = False) -> list[Document]:
    """Return the mappings in a YAML file of any number of documents, or the one in a JSON file.

    Empty documents are left out. Raise ManifestError for content that cannot be accepted, or without any document.
    """
    if json:
        return [read_document(content, source=source, json=True)]
    from grass.manifest import yaml_text

    try:
        found = [document for document in yaml_text.parse_all(_decode(content)) if document is not None]
    except DocumentFault as fault:
        raise ManifestError([fault.problem], source) from fault
    if len(found) > MAX_DOCUMENTS:
        raise ManifestError([Problem("", f"has {len(found)} documents; the most is {MAX_DOCUMENTS}")], source)
    wrong = [at for at, document in enumerate(found) if not isinstance(document, dict)]
    if wrong or not found:
        what = f"document {wrong[0] + 1} must be a mapping (KEY: VALUE lines)" if wrong else "is empty"
        raise ManifestError([Problem("", what)], source)
    return found


class DocumentFault(Exception):
    """The reason why a reader cannot accept the text. Internal to the readers."""

    def __init__(self, path: str, message: str) -> None:
        self.problem = Problem(path, message)
        super().__init__(str(self.problem))


def plain_scalar(text: str) -> Any:
    """Return the value of an unquoted word."""
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
    """Return the dotted path to ``key``. A key that is not a simple word is quoted; a long key is cut."""
    shown = key if _WORD.fullmatch(key) else show_text(key)
    return f"{path}.{shown}" if path else shown


def show_text(text: str) -> str:
    """Quote at most 60 characters of the text for a message."""
    return f'"{one_line(text, 60)}"'


def one_line(text: str, limit: int = 200) -> str:
    """Make text of unknown origin printable: at most ``limit`` characters, control characters escaped."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in cut)


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
