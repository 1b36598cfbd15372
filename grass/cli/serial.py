"""Results as YAML, as CSV and as names. Pure. Called by ``output``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grass.cli.amounts import NOTHING

if TYPE_CHECKING:
    from grass.cli.output import Result, Rows


def yaml_text(data: Any) -> str:
    import yaml  # loaded when it is asked for: most calls print a table

    text: str = yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False, allow_unicode=True, width=120)
    return text


def csv_text(titles: Sequence[str], rows: Sequence[Sequence[str]], *, header: bool) -> str:
    import csv
    import io

    text = io.StringIO()
    if not titles:
        return ""
    writer = csv.writer(text, lineterminator="\n")
    cells = [["" if cell == NOTHING else cell for cell in row] for row in rows]
    writer.writerows([titles, *cells] if header else cells)
    return text.getvalue()


def items_of(result: Result) -> Any:
    """Return what has a line each in csv."""
    data = result.plain()
    found = data if result.items is None else data.get(result.items, data)
    if result.items is not None and isinstance(found, Mapping) and found is not data:
        return [{"name": name, **item} for name, item in found.items()]
    return found


def rows_of(data: Any) -> Rows:
    """Return a column per key. A value that is not a plain text or number is JSON."""
    items = [item if isinstance(item, Mapping) else {"value": item} for item in _items(data)]
    titles = list(dict.fromkeys(key for item in items for key in item))
    return titles, [[raw_cell(item.get(title)) for title in titles] for item in items]


def names_of(result: Result) -> list[str]:
    """Return the names of what the result has; its ids, where things have no names."""
    items = _items(result.plain())
    if items and all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items):
        return [item["name"] for item in items]
    return list(result.ids)


def _items(data: Any) -> Sequence[Any]:
    return data if isinstance(data, (list, tuple)) else [data]


def raw_cell(value: Any) -> str:
    """Return a value as the cell of a table: text as it is, nothing for None, otherwise JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
