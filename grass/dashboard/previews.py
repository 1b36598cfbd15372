"""The beginning of a file as the page shows it: text, a table, or what it is instead. Pure. Used by ``app``.

The page puts all of it into text nodes. Nothing here reads more of a file than ``MOST``.
"""

from __future__ import annotations

import codecs
import csv
import io
from itertools import islice

from msgspec import Struct

from grass.dashboard.sending import Content, picture_kind

MOST = 256 * 1024
"""Bytes of a file that are read."""
MOST_ROWS, MOST_COLUMNS, LONGEST_CELL = 500, 60, 300
_DELIMITERS = {"csv": ",", "tsv": "\t"}


class Preview(Struct):
    """What the page shows of a file. ``kind``: ``text``, ``table``, ``picture`` (without its content) or ``other``."""

    kind: str
    size: int
    text: str = ""
    rows: list[list[str]] = []
    more: bool = False
    """Whether the file goes on after what is shown."""


def preview(name: str, content: Content) -> Preview:
    """Return the beginning of a file, whose name says only whether text is a table."""
    head = _beginning(content)
    if picture_kind(head) is not None:
        return Preview("picture", content.size)
    cut = content.size > len(head)
    text = _text(head, cut)
    if text is None:
        return Preview("other", content.size)
    delimiter = _DELIMITERS.get(name.rpartition(".")[2].lower())
    if delimiter is not None:
        try:
            return _table(text, delimiter, content.size, cut)
        except csv.Error:  # such as a cell that never ends: it is shown as text
            pass
    return Preview("text", content.size, text=text, more=cut)


def _beginning(content: Content) -> bytes:
    found = bytearray()
    for piece in content.pieces:
        found += piece
        if len(found) >= MOST:
            break
    return bytes(found[:MOST])


def _text(head: bytes, cut: bool) -> str | None:
    """Return the bytes as text; None: they are none. The last character may be cut in half."""
    if b"\0" in head:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=not cut)
    except UnicodeDecodeError:
        return None


def _table(text: str, delimiter: str, size: int, cut: bool) -> Preview:
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    read = [row for row in islice(lines, MOST_ROWS + 2) if row]
    if cut and len(read) < MOST_ROWS + 2:
        read = read[:-1]  # the last row may be half of one
    rows = [[cell[:LONGEST_CELL] for cell in row[:MOST_COLUMNS]] for row in read[: MOST_ROWS + 1]]
    return Preview("table", size, rows=rows, more=cut or len(read) > MOST_ROWS + 1)
