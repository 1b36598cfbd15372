"""Arrays from data: ``from:`` of a component gives each task one entry. Pure.

The client reads the named file and sends its entries (``with_entries``), because the cluster cannot read it. Used by
``native``, ``sent_data`` and ``grass.api.document_data``.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from grass.errors import ManifestError, Problem
from grass.lines import lines_of
from grass.manifest import values
from grass.manifest.document import Document, show_text
from grass.manifest.fields import Fields
from grass.manifest.matrix import read_variables
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


def of_json(text: str) -> Document:
    """Return the items of a JSON list as `entries`; an item that is not text as compact JSON. Raises Wrong.

    Of items that are all objects, each key that all have is one of `columns`, if its values are no lists or objects and
    its name can be that of a variable.
    """
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"must be a JSON list: {error}") from error
    if not isinstance(items, list):
        raise Wrong(f"must be a JSON list, got {values.show(items)}")
    entries = [item if isinstance(item, str) else json.dumps(item, separators=(",", ":")) for item in items]
    if not items or not all(isinstance(item, dict) for item in items):
        return {"entries": entries}
    shared = [key for key in items[0] if _is_variable(key) and all(_is_scalar(item.get(key)) for item in items)]
    columns = {key: [_text(item[key]) for item in items] for key in shared}
    return {"entries": entries, **({"columns": columns} if columns else {})}


def _is_variable(name: str) -> bool:
    try:
        return bool(values.task_variable(name))
    except Wrong:
        return False


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _column(name: str) -> str:
    try:
        return values.task_variable(name)
    except Wrong as wrong:
        raise Wrong(f"line 1: the column {show_text(name)}: {wrong}") from wrong


def of_csv(text: str) -> Document:
    """Return the columns of a CSV file (RFC 4180), by the names in its first line. Raises Wrong."""
    reader = csv.reader(filter(None, re.split("(?<=\n)", text.removeprefix("\ufeff"))), strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row]  # a blank line is no row
    except csv.Error as error:
        raise Wrong(f"line {reader.line_num}: {error}") from error
    if len(rows) < 2:
        raise Wrong("must have a line with the names of the columns, and at least one more")
    (_, names), *found = rows
    if len(names) == 1 and (other := next((mark for mark in (";", "\t") if mark in names[0]), "")):
        raise Wrong(f"must have commas between columns, got {show_text(other)} in line 1")
    names = [_column(name.strip()) for name in names]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Wrong(f"line 1: the column {show_text(twice)} appears twice")
    for number, row in found:
        if len(row) != len(names):
            raise Wrong(f"line {number}: must have {len(names)} columns, as line 1; got {len(row)}")
    return {"columns": {name: [row[at] for _, row in found] for at, name in enumerate(names)}}


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
                found = _READERS[kind](read(name))
            except Wrong as wrong:
                raise ManifestError([Problem(f"{path}.{KEY}.{kind}", f"{name}: {wrong}")]) from wrong
            part[KEY] = {**{key: value for key, value in part[KEY].items() if key != kind}, **found}
    return document


_READERS: dict[str, Callable[[str], Document]] = {
    "lines": lambda text: {"entries": of_lines(text)},
    "json": of_json,
    "csv": of_csv,
}


def files_of(part: Document) -> dict[str, str]:
    """Return the files that a component names, by how they are read: ``lines``, ``json`` or ``csv``."""
    source = part.get(KEY)
    if not isinstance(source, dict):
        return {}
    return {kind: source[kind] for kind in _READERS if isinstance(source.get(kind), str)}


@dataclass(frozen=True)
class Rows:
    """What `from` gives the tasks: entry ``i`` and the ``i``-th value of each column. Both have the same length, or one
    of them is empty."""

    entries: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return max(len(self.entries), *map(len, self.columns.values()), 0)


def read_rows(fields: Fields, env: dict[str, str]) -> Rows:
    """Read ``from``. Without rows, the key is absent, or a problem was reported. ``env``: of the component."""
    section = fields.section(KEY)
    if section is None:
        return Rows()
    given = [key for key in (*_READERS, "array", "entries", "columns") if section.has(key)]
    if len(given) != 1 and given != ["entries", "columns"]:
        section.problems.add(section.path, "must have exactly one of lines, json, csv, array, entries, columns")
    for key in _READERS:
        section.refuse(key, "must be the name of a file, which the client reads")
    none: tuple[str, ...] = ()
    entries = section.read("array", parse_array, none)
    if section.has("entries"):
        entries = tuple(section.parsed(path, values.scalar_text, item, "") for path, item in section.items("entries"))
        _check_count(section, entries)
    columns = _read_columns(section, env)
    if fields.has("matrix"):
        section.problems.add(section.path, "cannot be combined with `matrix`; keep one")
    section.done()
    rows = Rows(entries, columns)
    if any(len(column) != rows.count for column in (*([entries] if entries else []), *columns.values())):
        section.problems.add(section.path, "must have as many values in each column, and as many entries")
    return rows


def _read_columns(section: Fields, env: dict[str, str]) -> dict[str, tuple[str, ...]]:
    columns = read_variables(section.section("columns"), env)
    if section.has("columns") and not columns and not section.problems.found:
        section.problems.add(section.at("columns"), "must not be empty; each task gets a value of each column")
    found: dict[str, tuple[str, ...]] = {}
    for name, items in columns.items():
        found[name] = tuple(section.parsed(path, values.scalar_text, item, "") for path, item in items)
        _check_count(section, found[name])
    return found


def _check_count(section: Fields, entries: tuple[str, ...]) -> None:
    if not entries:
        section.problems.add(section.path, "has no entry, so there would be no task")
    elif len(entries) > MAX_ENTRIES:
        section.problems.add(section.path, f"must have at most {MAX_ENTRIES:,} entries, got {len(entries):,}")
