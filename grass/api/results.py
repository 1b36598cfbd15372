"""The results of jobs as one table: a row for each task, with the parameters that differ and its figures. Pure.

Used by ``Client`` and `grass job results`.
"""

from __future__ import annotations

import importlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grass.wire.result_views import ResultRow, ResultsView

Cell = str | float | int | None
FIRST = ("job", "task")
LAST = (
    "state",
    "seconds",
    "failure",
    "cause",
    "exit_code",
    "attempt",
    "node",
    "started",
    "ended",
    "cpu",
    "memory",
    "id",
    "output",
)
"""Columns behind the parameters; the figures come before ``seconds``."""
MOST_FIGURES = 200
"""Figures that have columns: those that most tasks reported."""
_NO_FIGURE = (None, None, None)


class Results(list[dict[str, Cell]]):
    """The rows of the table, which all have the same keys.

    ``parameters``: the columns in which the tasks differ, and of a single task all that it said with
    ``grass.log_params``; ``alike``: what all tasks said that said anything. ``figures``: the last values of what they
    reported; ``NAME:min`` and ``NAME:max`` are the least and greatest ones, ``NAME:not_finite``
    how many were NaN or infinite, if there are any. ``further``: how many figures have no
    column, because tasks gave them more than ``MOST_FIGURES`` names. ``not_finite``: figure → how many values of all
    tasks were NaN or infinite; these count nowhere else. ``left_out``: parameters beyond those that are kept.
    ``troubles``: job and task → what it reported that is not kept, and why → how often.
    """

    def __init__(self, views: Sequence[ResultsView]) -> None:
        settings = [_parameters(view, several=len(views) > 1) for view in views]
        said = [row.parameters for view in views for row in view.rows]
        self.parameters, self.alike = _differing([values for rows in settings for values in rows], said)
        names = Counter(name for view in views for row in view.rows for name in {**row.figures, **row.not_finite})
        self.not_finite: Counter[str] = Counter()
        self.left_out = sum(view.left_out for view in views)
        self.troubles = {
            (view.name, row.task): dict(row.troubles) for view in views for row in view.rows if row.troubles
        }
        self.further = max(0, len(names) - MOST_FIGURES)
        if self.further:
            names = Counter(dict(names.most_common(MOST_FIGURES)))
        shown = (*self.parameters, *self.alike)
        for row in (row for view in views for row in view.rows if row.not_finite):
            self.not_finite.update({name: count for name, count in row.not_finite.items() if name in names})
        taken = {*FIRST, *LAST, *shown}
        titles = {name: f"{name}:last" if name in taken else name for name in names}
        self.figures = tuple(titles.values())
        self.incomplete = tuple(view.name for view in views if view.full)
        """Jobs that reported more figures than are kept of one job."""
        columns, figures = self.columns(), tuple(names)
        lost = tuple(self.not_finite)
        super().__init__(
            dict(zip(columns, _cells(view, row, [values.get(name, "") for name in shown], figures, lost), strict=True))
            for view, rows in zip(views, settings, strict=True)
            for row, values in zip(view.rows, rows, strict=True)
        )

    def columns(self) -> list[str]:
        """Return all columns in their order."""
        ranges = [f"{name.removesuffix(':last')}:{end}" for name in self.figures for end in ("min", "max")]
        lost = [f"{name}:not_finite" for name in self.not_finite]
        return [*FIRST, *self.parameters, *self.alike, LAST[0], *self.figures, *ranges, *lost, *LAST[1:]]

    def ordered(self, by: str) -> list[dict[str, Cell]]:
        """Return the rows in the order of a column; ``-name``: the greatest first. Rows without a value come last."""
        name = by.removeprefix("-")
        known = [row for row in self if row[name] not in (None, "")]
        numbers = all(isinstance(row[name], int | float) for row in known)
        known.sort(key=lambda row: row[name] if numbers else str(row[name]), reverse=by.startswith("-"))  # type: ignore[arg-type,return-value] # of one type
        return known + [row for row in self if row[name] in (None, "")]

    def frame(self) -> Any:  # Any: of a library that Grass does not need
        """Return the rows as a ``pandas.DataFrame``. Raises ImportError: pandas is not installed."""
        return importlib.import_module("pandas").DataFrame(list(self), columns=self.columns())


def _cells(
    view: ResultsView, row: ResultRow, values: Sequence[str], figures: Sequence[str], lost: Sequence[str]
) -> list[Cell]:
    """Return the cells of a row in the order of the columns."""
    found = [row.figures.get(name, _NO_FIGURE) for name in figures]
    seconds = None if row.started is None or row.ended is None else round(row.ended - row.started, 3)
    return [
        *(view.name, row.task, *map(number, values), row.state.value),
        *(each[0] for each in found),
        *(end for each in found for end in each[1:]),
        *(row.not_finite.get(name, 0) for name in lost),
        *(seconds, row.failure and row.failure.value, row.cause, row.exit_code),
        *(row.attempt, row.node, row.started, row.ended, row.cpu, row.memory),
        *(view.id, f"jobs/{row.run or view.id}"),
    ]


@lru_cache(4096)
def number(text: str) -> Cell:
    """Return a text as the number that is written in just this way, otherwise as it is."""
    for kind in (int, float):
        try:
            found = kind(text)
        except ValueError:
            continue
        if str(found) == text and math.isfinite(found):
            return found
    return text


def _parameters(view: ResultsView, *, several: bool) -> list[dict[str, str]]:
    """Return the parameters of each row. What all tasks of a job have only counts beside other jobs."""
    shared: dict[str, dict[str, str]] = {}
    if several:
        shared = {name: {**values, **view.tags} for name, values in view.settings.items()}
    return [
        {**shared.get(row.task.rpartition(".")[0], {}), **_with_said(_entry(row.values), row.parameters)}
        for row in view.rows
    ]


def _with_said(given: Mapping[str, str], said: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values of a task with what it said of itself, which counts more unless it is the same number."""
    if not said:
        return given
    return {**given, **{name: text for name, text in said.items() if not _same(text, given.get(name, ""))}}


def _same(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def _entry(values: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values of a task. The keys of an entry that is a JSON object are parameters."""
    if not values.get("entry", "").startswith("{"):
        return values
    try:
        found: dict[str, object] = json.loads(values["entry"])
    except ValueError:
        return values
    return {name: each if isinstance(each, str) else json.dumps(each) for name, each in found.items()}


def _differing(
    rows: Sequence[Mapping[str, str]], said: Sequence[Mapping[str, str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parameters in which rows differ, and those alike that tasks said of themselves.

    What tasks say is compared among those that have said anything. A single row has no others to be alike with.
    """
    names: Iterable[str] = [
        name for name in dict.fromkeys(name for row in rows for name in row) if name not in FIRST + LAST
    ]
    given = {name for row, each in zip(rows, said, strict=True) for name in row.keys() - each.keys()}
    own = {name for each in said for name in each} - given
    spoke = [row for row, each in zip(rows, said, strict=True) if each]
    differ = [
        name
        for name in names
        if len({row.get(name) for row in rows}) > 1 and (name not in own or len({row.get(name) for row in spoke}) > 1)
    ]
    found = dict.fromkeys(differ)
    alike = [name for name in names if name in own and name not in found]
    return ((*differ, *alike), ()) if len(rows) == 1 else (tuple(differ), tuple(alike))
