"""Drawings of a report as inline SVG: when each attempt ran, and curves. Pure; no script, no font, no outside link.

Used by ``report_page``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from grass.cli import cells
from grass.model.amounts import show_memory
from grass.model.figures import OF_TASK, Unit

if TYPE_CHECKING:
    from grass.wire.usage_views import Curves

WIDTH, LEFT = 960, 150
CURVE_WIDTH, CURVE_LEFT = 460, 80
MOST_ROWS = 60
"""Tasks with a row and a name of their own. With more tasks, rows are thin and have no names."""
MOST_HEIGHT = 400
_ORDER = ("ok", "stopped", "running", "lost", "bad")
"""Kinds in the order of drawing: failures are on top."""
MOST_POINTS = 400
"""Points of one curve; of more points, every second, third, … is drawn."""


class Bar(NamedTuple):
    """One attempt. ``kind``: ok, bad, stopped, lost or running."""

    row: int
    start: float
    end: float
    kind: str


def timeline(names: Sequence[str], bars: Sequence[Bar], start: float, end: float) -> str:
    """Return the attempts of all tasks over time. ``names``: of the rows."""
    span = max(end - start, 1e-3)
    height = 16.0 if len(names) <= MOST_ROWS else max(0.1, MOST_HEIGHT / len(names))
    left = LEFT if len(names) <= MOST_ROWS else 0
    inner = WIDTH - left
    paths: dict[str, list[str]] = {}
    for bar in bars:
        x = left + inner * (bar.start - start) / span
        length = max(2.0, inner * (bar.end - bar.start) / span)
        paths.setdefault(bar.kind, []).append(f"M{x:.1f} {(bar.row + 0.5) * height:.1f}h{length:.1f}")
    thick = max(1.5, height * 0.7)
    drawn = "".join(
        f'<path class="{kind}" stroke-width="{thick:.2f}" d="{"".join(d)}"/>'
        for kind in _ORDER
        if (d := paths.get(kind))
    )
    labels = ""
    if len(names) <= MOST_ROWS:
        labels = "".join(
            f'<text x="{LEFT - 8}" y="{(row + 0.75) * height:.1f}" text-anchor="end">{_text(name[:24])}</text>'
            for row, name in enumerate(names)
        )
    total = max(1.0, len(names) * height)
    return _svg(total, labels + drawn, f"timeline of {len(names)} tasks")


def _plain(value: float) -> str:
    return f"{value:.4g}"


def curve(
    title: str,
    xs: Sequence[float],
    values: Sequence[float | None],
    least: float | None = None,
    show: Callable[[float], str] = _plain,
) -> str:
    """Return one curve with its least and greatest value. Gaps stay gaps.

    ``least``: the lower end, if no value is lower.
    """
    every = max(1, -(-len(values) // MOST_POINTS))
    points = [(x, value) for x, value in list(zip(xs, values, strict=True))[::every]]
    known = [value for _, value in points if value is not None]
    if not known:
        return ""
    low, high = min([*known, *([] if least is None else [least])]), max(known)
    span_x, span_y = max(points[-1][0] - points[0][0], 1e-9), max(high - low, 1e-12)
    path, gap = [], True
    for x, value in points:
        if value is None:
            gap = True
            continue
        at = CURVE_LEFT + (CURVE_WIDTH - CURVE_LEFT) * (x - points[0][0]) / span_x
        path.append(f"{'M' if gap else 'L'}{at:.1f} {76 - 72 * (value - low) / span_y:.1f}")
        gap = False
    text = (
        f'<text x="{CURVE_LEFT - 6}" y="14" text-anchor="end">{_text(show(high))}</text>'
        f'<text x="{CURVE_LEFT - 6}" y="76" text-anchor="end">{_text(show(low))}</text>'
    )
    drawn = f'<path class="curve" d="{"".join(path)}"/>'
    return f"<figure><figcaption>{_text(title)}</figcaption>{_svg(80, text + drawn, title, CURVE_WIDTH)}</figure>"


def curves_of(history: Curves, title: str, begin: float, end: float) -> list[str]:
    """Return the curves of a usage history (``Curves``), from zero on. What was never used is left out.

    ``begin`` and ``end``: the wall times that are drawn, the same for all tasks of a job.
    """
    found, start, step = [], history.start, history.step
    for figure in OF_TASK:
        every = enumerate(history.curves.get(figure.name) or ())
        points = [(start + at * step, value) for at, value in every if begin - step < start + at * step <= end]
        xs, values = [x for x, _ in points], [value for _, value in points]
        if any(values) or (figure.shown_at_zero and any(value is not None for value in values)):
            found.append(curve(f"{title}: {figure.name.replace('_', ' ')}", xs, values, 0.0, _SHOWN[figure.unit]))
    return found


def _size(value: float) -> str:
    return show_memory(int(value))


_SHOWN: Mapping[Unit, Callable[[float], str]] = {
    Unit.CORES: lambda value: f"{value:.3g} cores",
    Unit.BYTES: _size,
    Unit.PERCENT: lambda value: f"{value:.3g} %",
    Unit.RATE: lambda value: f"{_size(value)}/s",
    Unit.WATTS: lambda value: f"{value:.3g} W",
}
"""Unit → how its values are shown."""


def _text(text: str) -> str:
    return escape(cells.clean(text), quote=True)


def _svg(height: float, content: str, title: str, width: int = WIDTH) -> str:
    head = f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{_text(title)}">'
    return f"{head}{content}</svg>"
