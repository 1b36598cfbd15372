"""Define `grass job results`: the tasks of jobs as a table of parameters and figures. Loaded by ``job``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from grass.cli.amounts import NOTHING, show_instant
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.job_media import say_troubles, show_media
from grass.cli.output import Output, Result, Rows
from grass.cli.table import Column, table
from grass.cli.values import JOB
from grass.errors import InputError
from grass.model.amounts import show_memory, show_span
from grass.model.reasons import FailureClass

if TYPE_CHECKING:
    from grass.api.results import Cell, Results

_MOST_FIGURES = 8
"""Figures that have a column of the table unless `--columns` names others."""


@click.command("results", cls=Command)
@click.argument("names", type=JOB, nargs=-1, metavar="JOB…")
@click.option("--tag", multiple=True, metavar="NAME[=VALUE]", help="All jobs with this tag, finished ones too.")
@click.option("--by", metavar="COLUMN", help="Sort by a figure or another column; -COLUMN: the greatest first.")
@click.option("--columns", metavar="NAMES", help="Columns, such as task,lr,loss,loss:min. [default: those that differ]")
@click.option("--media", is_flag=True, help="The texts, pictures and tables that tasks reported, instead.")
@pass_invocation
def results(
    invocation: Invocation, names: Sequence[str], tag: tuple[str, ...], by: str | None, columns: str | None, media: bool
) -> None:
    """Show what came out of each task: parameters that differ, state, last figures, time, and why it failed.

    Of several jobs, the variables, commands and tags that differ are parameters, too. Beside its last value, each
    figure has columns NAME:min and NAME:max. CSV and JSON have all columns. With --media, a JOB may be a task, such as
    sweep.main.3.
    """
    if bool(names) == bool(tag):
        raise click.UsageError("name the jobs, or select them with --tag")
    if media:
        if by or columns:
            raise click.UsageError("--media has no figures; use it without --by and --columns")
        show_media(invocation, names, tag)
        return
    found = invocation.client().results(*names, tag=tag)
    _say_what_is_missing(invocation.output, found)
    known = found.columns()
    chosen = columns.split(",") if columns else _default(found)
    for name in [*chosen, *([by.removeprefix("-")] if by else [])]:
        if name not in known:
            unknown, unreported = f"unknown column {name!r}", f"column {name!r}: no task has reported such a figure yet"
            raise InputError(f"{unknown if found.figures else unreported}; use some of {', '.join(known)}")
    rows = found.ordered(by) if by else list(found)
    shown = chosen if columns else known

    def lines(width: int | None) -> list[str]:
        return table([_column(name, found) for name in chosen], [_texts(row, chosen) for row in rows], width)

    def raw() -> Rows:
        return shown, [["" if row[name] is None else str(row[name]) for name in shown] for row in rows]

    data = [{name: row[name] for name in shown} for row in rows] if columns else rows
    several = _of_several(found)
    ids = [f"{row['id']}.{row['task']}" if several else str(row["task"]) for row in rows]
    invocation.output.show(Result(data, lines, ids, raw))


def _say_what_is_missing(output: Output, found: Results) -> None:
    say_troubles(output, [(job, task, notes) for (job, task), notes in found.troubles.items()])
    for job in found.incomplete:
        output.note(f"job {job}: reported more figures than are kept; those of some tasks are missing")
    for figure, count in found.not_finite.items():
        output.note(not_finite(figure, count))
    if found.left_out:
        output.note(f"tasks said {found.left_out} more parameters than are kept; those are missing")
    if found.further:
        output.note(f"{found.further} further figures have no column; those that most tasks reported have one")


def not_finite(figure: str, count: int) -> str:
    """Return what is said of values that are in no curve."""
    return f"{figure}: {'1 value was' if count == 1 else f'{count} values were'} not finite (NaN or infinite)"


def _of_several(found: Results) -> bool:
    return len({row["id"] for row in found}) > 1


def _default(found: Results) -> list[str]:
    several = _of_several(found)
    job = ["job"] if several else []
    if several and len({row["job"] for row in found}) == 1:
        job = ["id"]  # several runs of one job
    cause = ["cause"] if any(row["cause"] for row in found) else []
    if any(row["failure"] not in (None, FailureClass.USER_ERROR.value) for row in found):
        cause.insert(0, "failure")
    return [*job, "task", *found.parameters, "state", *found.figures[:_MOST_FIGURES], "seconds", *cause]


def _column(name: str, found: Results) -> Column:
    number = any(isinstance(row[name], int | float) for row in found)
    title = {"seconds": "TIME", "exit_code": "EXIT"}.get(name, name if name in found.parameters else name.upper())
    return Column(title, wrap=name == "cause", right=number)


def _texts(row: Mapping[str, Cell], names: Sequence[str]) -> list[str]:
    return [_text(name, row[name]) for name in names]


def _text(name: str, cell: Cell) -> str:
    if cell is None or cell == "":
        return NOTHING if name != "cause" else ""
    if isinstance(cell, str):
        return cell
    match name:
        case "seconds" | "cpu":
            return show_span(cell)
        case "memory":
            return show_memory(int(cell))
        case "started" | "ended":
            return show_instant(cell)
        case _:
            return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
