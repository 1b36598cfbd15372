"""Draw curves as one line of block characters each. Pure. Used by `grass top`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from grass.cli import cells
from grass.cli.table import Column, table
from grass.model.amounts import show_memory
from grass.model.figures import OF_TASK, Unit

if TYPE_CHECKING:
    from grass.wire.usage_views import Curves, JobMetricsView, OwnCurve

Values = Sequence[float | None]

_BLOCKS = "▁▂▃▄▅▆▇█"
_LEAST, _MOST = 8, 60
"""Cells of a drawn curve."""
_HEAD = (Column("CURVE"), Column("LAST", right=True), Column("MAX", right=True), Column("SINCE THE START"))
_LONGEST_NAME = 28
_BESIDES = _LONGEST_NAME + 2 * 10 + 6
"""Cells of the other columns, at most."""
_USED = tuple(each for each in OF_TASK if each.name in ("cpu", "memory", "gpu", "gpu_memory"))


def sparkline(values: Values, limit: int, low: float | None = None) -> str:
    """Return the values as up to ``limit`` characters: means of equal parts; a blank where nothing is known.

    ``low``: the value of the lowest block; None: the least value.
    """
    parts = _parts(values, limit)
    known = [value for value in parts if value is not None]
    if not known:
        return ""
    floor, top = min([*known] if low is None else [*known, low]), max(known)
    scale = (len(_BLOCKS) - 1) / (top - floor) if top > floor else 0.0
    return "".join(" " if value is None else _BLOCKS[round((value - floor) * scale)] for value in parts)


def _parts(values: Values, limit: int) -> list[float | None]:
    count = min(limit, len(values))
    parts = (values[len(values) * at // count : len(values) * (at + 1) // count] for at in range(count))
    return [_mean([value for value in part if value is not None]) for part in parts]


def _mean(known: Sequence[float]) -> float | None:
    return sum(known) / len(known) if known else None


def curve_lines(histories: Mapping[str, Curves], metrics: JobMetricsView, width: int) -> list[str]:
    """Return the table of curves: what tasks reported of themselves, then what they used; empty if there are none.

    ``histories``: task → curves of its usage. ``metrics``: of the job.
    """
    limit = max(_LEAST, min(_MOST, width - _BESIDES))
    rows = [_own(curve, limit) for curve in metrics.curves]
    for task, history in histories.items():
        for figure in _USED:
            known = [value for value in history.curves.get(figure.name, ()) if value is not None]
            if known and (figure.shown_at_zero or any(known)):
                show = _size if figure.unit is Unit.BYTES else _two_digits
                drawn = sparkline(history.curves[figure.name], limit, 0.0)
                rows.append([_name(f"{task} {figure.name}"), show(known[-1]), show(max(known)), drawn])
    return table(_HEAD, rows, width) if rows else []


def _own(curve: OwnCurve, limit: int) -> list[str]:
    values = curve.values
    last, most = (f"{values[-1]:.4g}", f"{max(values):.4g}") if values else ("", "")
    return [_name(f"{curve.task} {curve.name}"), last, most, sparkline(values, limit)]


def _size(value: float) -> str:
    return show_memory(int(value))


def _two_digits(value: float) -> str:
    return f"{value:.2f}"


def _name(text: str) -> str:
    return cells.clip(cells.clean(text), _LONGEST_NAME)
