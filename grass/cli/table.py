"""Lay out aligned columns within a width. Pure: takes columns, rows and a width, returns lines.

If the table is too wide, the wrapping column uses several lines; then optional columns go; then the widest are cut.
Used by this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grass.cli import cells

GAP = 2
LEAST_WRAPPED = 24
"""Fewest cells for wrapped text. Narrower text is hard to read, so an optional column is removed first."""
LEAST_CUT = 4


@dataclass(frozen=True)
class Column:
    """One column. ``drop``: 0 stays; the highest other number is removed first. ``wrap``: only for the last column."""

    title: str
    drop: int = 0
    wrap: bool = False
    right: bool = False


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    """Return the header and one line (or more, if a cell wraps) per row. ``width`` None: no limit."""
    texts = [[column.title for column in columns], *([cells.clean(cell) for cell in row] for row in rows)]
    return _lines(columns, texts, width)


def pairs(rows: Iterable[tuple[str, str]], width: int | None, indent: int = 0) -> list[str]:
    """Return ``key  value`` lines with aligned and wrapped values."""
    texts = [[cells.clean(key), cells.clean(value)] for key, value in rows]
    lines = _lines((Column(""), Column("", wrap=True)), texts, None if width is None else width - indent)
    return [" " * indent + line for line in lines]


def paragraph(text: str, width: int | None, indent: int = 0) -> list[str]:
    text = cells.clean(text)
    lines = [text] if width is None else cells.wrap(text, max(LEAST_CUT, width - indent))
    return [" " * indent + line for line in lines]


def _lines(columns: Sequence[Column], texts: list[list[str]], width: int | None) -> list[str]:
    natural = [max(cells.width(row[index]) for row in texts) for index in range(len(columns))] if texts else []
    widths = dict(enumerate(natural)) if width is None else _fit(columns, natural, width)
    return [line for row in texts for line in _row(columns, row, widths)]


def _fit(columns: Sequence[Column], natural: list[int], width: int) -> dict[int, int]:
    """Return the width in cells of each kept column, by column index."""
    kept = dict(enumerate(natural))
    while True:
        excess = sum(kept.values()) + GAP * (len(kept) - 1) - width
        if excess <= 0:
            return kept
        wrapping = next((index for index in kept if columns[index].wrap), None)
        if wrapping is not None and kept[wrapping] - excess >= min(LEAST_WRAPPED, natural[wrapping]):
            return kept | {wrapping: kept[wrapping] - excess}
        optional = [index for index in kept if columns[index].drop]
        if not optional:
            return _cut(kept, excess)
        del kept[max(optional, key=lambda index: columns[index].drop)]


def _cut(kept: dict[int, int], excess: int) -> dict[int, int]:
    kept = dict(kept)
    while excess > 0:
        widest = max(kept, key=lambda index: kept[index])
        if kept[widest] <= LEAST_CUT:
            break
        kept[widest] -= 1
        excess -= 1
    return kept


def _row(columns: Sequence[Column], row: list[str], widths: dict[int, int]) -> list[str]:
    blocks = [
        cells.wrap(row[index], limit) if columns[index].wrap else [cells.clip(row[index], limit)]
        for index, limit in widths.items()
    ]
    lines = []
    for number in range(max(len(block) for block in blocks)):
        parts = [
            cells.pad(block[number] if number < len(block) else "", limit, right=columns[index].right)
            for block, (index, limit) in zip(blocks, widths.items(), strict=True)
        ]
        lines.append((" " * GAP).join(parts).rstrip())
    return lines
