"""Runs side by side: parameters that differ, figures, and output files by digest. Pure.

A side is a job, or one of its tasks. Used by ``Client``, `grass job compare` and the dashboard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grass.errors import InputError, NotFoundError
from grass.model.key_text import task_parts

if TYPE_CHECKING:
    from grass.api.results import Cell, Results
    from grass.files.operations import FileDigest

MOST_SIDES = 20
MOST_VALUES = 8
"""Values of a parameter that are listed for one side."""
Row = Mapping[str, "Cell"]


@dataclass(frozen=True)
class Target:
    """What a word of the user means: a job, or one task of it (``task`` empty: all)."""

    job: str
    task: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``train`` or ``train.worker.3``."""
        job, _, task = text.partition(".")
        if task and task_parts(task) is None:
            raise InputError(f"{text!r}: name a job, or a task as JOB.COMPONENT.INDEX, such as train.worker.3")
        return cls(job, task)


@dataclass(frozen=True)
class FigureSide:
    """A figure of one side. ``last``: the mean over its tasks; ``least``, ``greatest``: of all of them."""

    last: float
    least: float
    greatest: float
    tasks: int


@dataclass(frozen=True)
class FileGroups:
    """The files of several folders, by digest. ``unread``: how many were too large, and are compared by size."""

    equal: int
    differ: tuple[str, ...]
    only: dict[str, tuple[str, ...]]
    """Side → files that not all sides have, and it has."""
    unread: int


@dataclass(frozen=True)
class Side:
    """One job or task. ``seconds``: of its tasks together; None: not known."""

    name: str
    job: str
    """Id."""
    tasks: int
    states: dict[str, int]
    seconds: float | None


@dataclass(frozen=True)
class Comparison:
    sides: tuple[Side, ...]
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name → its values, of each side; those that do not differ are left out."""
    figures: dict[str, tuple[FigureSide | None, ...]] = field(default_factory=dict)
    incomplete: tuple[str, ...] = ()
    """Jobs that reported more figures than are kept."""
    not_finite: dict[str, int] = field(default_factory=dict)
    """Figure → how many of its values were NaN or infinite, of all sides."""


def comparison(targets: Sequence[Target], ids: Sequence[str], results: Results) -> Comparison:
    """Compare targets. ``ids``: those of their jobs. Raises NotFoundError: a job has no such task."""
    rows: list[list[Row]] = []
    for target, job in zip(targets, ids, strict=True):
        own: list[Row] = [
            row for row in results if row["id"] == job and (not target.task or row["task"] == target.task)
        ]
        if not own:
            raise NotFoundError(f"job {target.job}: it has no task {target.task}")
        rows.append(own)
    names = _names(targets, ids)
    sides = tuple(_side(name, job, own) for name, job, own in zip(names, ids, rows, strict=True))
    values = {name: tuple(_values(name, own) for own in rows) for name in results.parameters}
    figures = {name.removesuffix(":last"): tuple(_figure(name, own) for own in rows) for name in results.figures}
    return Comparison(
        sides,
        {name: found for name, found in values.items() if len(set(found)) > 1},
        {name: found for name, found in figures.items() if any(found)},
        results.incomplete,
        {name: sum(_count(row[f"{name}:not_finite"]) for own in rows for row in own) for name in results.not_finite},
    )


def grouped(files: Mapping[str, Sequence[FileDigest]]) -> FileGroups:
    """Compare the files of sides. A file without a digest is equal to one of the same size."""
    known = {side: {each.name: each.digest or f"{each.size} bytes" for each in found} for side, found in files.items()}
    counts = Counter(name for found in known.values() for name in found)
    common = [name for name, count in sorted(counts.items()) if count == len(known)]
    differ = tuple(name for name in common if len({found[name] for found in known.values()}) > 1)
    only = {side: tuple(sorted(name for name in found if counts[name] < len(known))) for side, found in known.items()}
    unread = len({each.name for found in files.values() for each in found if not each.digest})
    return FileGroups(len(common) - len(differ), differ, {side: names for side, names in only.items() if names}, unread)


def _names(targets: Sequence[Target], ids: Sequence[str]) -> list[str]:
    """Return what the sides are called: as the user did, unless that means two of them."""
    names = [f"{target.job}.{target.task}" if target.task else target.job for target in targets]
    full = [f"{job}.{target.task}" if target.task else job for target, job in zip(targets, ids, strict=True)]
    return [one if names.count(one) == 1 else other for one, other in zip(names, full, strict=True)]


def _side(name: str, job: str, rows: Sequence[Row]) -> Side:
    states = Counter(str(row["state"]).lower() for row in rows)
    seconds = [row["seconds"] for row in rows if isinstance(row["seconds"], int | float)]
    return Side(name, job, len(rows), dict(states), round(sum(seconds), 3) if seconds else None)


def _values(name: str, rows: Sequence[Row]) -> str:
    """Return the values of a parameter among the tasks of a side."""
    found = list(dict.fromkeys(str(row[name]) for row in rows if row[name] != ""))
    more = f", … ({len(found)} values)" if len(found) > MOST_VALUES else ""
    return ", ".join(found[:MOST_VALUES]) + more


def _count(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0


def _figure(name: str, rows: Sequence[Row]) -> FigureSide | None:
    plain = name.removesuffix(":last")
    columns = [
        [value for row in rows if isinstance(value := row[column], int | float)]
        for column in (name, f"{plain}:min", f"{plain}:max")
    ]
    last, least, greatest = columns
    return FigureSide(sum(last) / len(last), min(least), max(greatest), len(last)) if last else None
