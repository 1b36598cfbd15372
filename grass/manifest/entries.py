"""Arrays from data: ``from:`` of a component gives each task one entry. Pure.

The client reads the named file and sends its entries (``with_entries``), because the cluster cannot read it. Used by
``native``, ``sent_data`` and ``grass.api.document_data``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from grass.errors import ManifestError, Problem
from grass.lines import lines_of
from grass.manifest import values
from grass.manifest.document import Document, show_text
from grass.manifest.fields import Fields
from grass.manifest.shell import components
from grass.manifest.values import Wrong

MAX_ENTRIES = 100_000
KEY = "from"
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")


def parse_array(value: Any) -> tuple[str, ...]:
    """Parse ``1-10,17`` or ``0-100:5`` (each fifth) to the numbers as text. Each number may appear once."""
    expected = "numbers and ranges such as 1-10,17 or 0-100:5"
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text:
        raise Wrong(f"must be {expected}, got {values.show(value)}")
    found: dict[int, None] = {}
    for part in text.split(","):
        numbers = _range(part.strip(), expected)
        if len(found) + len(numbers) > MAX_ENTRIES:
            raise Wrong(f"must have at most {MAX_ENTRIES:,} numbers")
        for number in numbers:
            if number in found:
                raise Wrong(f"must name each number once, got {number} twice")
        found.update(dict.fromkeys(numbers))
    return tuple(map(str, found))


def _range(part: str, expected: str) -> range:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise Wrong(f"must be {expected}, got {show_text(part)}")
    first, last, step = (None if number is None else int(number) for number in match.groups())
    assert first is not None
    if (last is not None and last < first) or step == 0:
        raise Wrong(f"must have ranges that go up, got {show_text(part)}")
    return range(first, (first if last is None else last) + 1, step or 1)


def of_lines(text: str) -> list[str]:
    """Return the lines of a file that are not blank."""
    return [line for line in lines_of(text) if line.strip(" \t")]


def of_json(text: str) -> list[str]:
    """Return the items of a JSON list; an item that is not text as compact JSON. Raises Wrong."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"must be a JSON list: {error}") from error
    if not isinstance(items, list):
        raise Wrong(f"must be a JSON list, got {values.show(items)}")
    return [item if isinstance(item, str) else json.dumps(item, separators=(",", ":")) for item in items]


def with_entries(document: Document, read: Callable[[str], str]) -> Document:
    """Return the document with the entries of the files that ``from`` names. ``read`` returns the text of a file.

    Raises ManifestError. Whatever has the wrong type stays, for the readers to report.
    """
    if not any(files_of(part) for _, part in components(document)):
        return document
    document = deepcopy(document)
    for path, part in components(document):
        for kind, name in files_of(part).items():
            try:
                found = of_lines(read(name)) if kind == "lines" else of_json(read(name))
            except Wrong as wrong:
                raise ManifestError([Problem(f"{path}.{KEY}.{kind}", f"{name}: {wrong}")]) from wrong
            part[KEY] = {**{key: value for key, value in part[KEY].items() if key != kind}, "entries": found}
    return document


def files_of(part: Document) -> dict[str, str]:
    """Return the files that a component names, by how they are read: ``lines`` or ``json``."""
    source = part.get(KEY)
    if not isinstance(source, dict):
        return {}
    return {kind: source[kind] for kind in ("lines", "json") if isinstance(source.get(kind), str)}


def read_entries(fields: Fields) -> tuple[str, ...]:
    """Read ``from``: the entry of each task. Empty: the key is absent, or a problem was reported."""
    section = fields.section(KEY)
    if section is None:
        return ()
    given = [key for key in ("lines", "json", "array", "entries") if section.has(key)]
    if len(given) != 1:
        section.problems.add(section.path, "must have exactly one of lines, json, array, entries")
    for key in ("lines", "json"):
        section.refuse(key, "must be the name of a file, which the client reads")
    none: tuple[str, ...] = ()
    entries = section.read("array", parse_array, none)
    if section.has("entries"):
        entries = tuple(section.parsed(path, values.scalar_text, item, "") for path, item in section.items("entries"))
        _check_count(section, entries)
    if fields.has("matrix"):
        section.problems.add(section.path, "cannot be combined with `matrix`; keep one")
    section.done()
    return entries


def _check_count(section: Fields, entries: tuple[str, ...]) -> None:
    if not entries:
        section.problems.add(section.path, "has no entry, so there would be no task")
    elif len(entries) > MAX_ENTRIES:
        section.problems.add(section.path, f"must have at most {MAX_ENTRIES:,} entries, got {len(entries):,}")
