"""Define `grass job compare`: runs side by side, with parameters, figures and files. Loaded by ``job``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from grass.cli.amounts import NOTHING
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.job_results import not_finite
from grass.cli.output import Result, Rows
from grass.cli.table import Column, table
from grass.cli.values import JOB
from grass.errors import GrassError, NotFoundError
from grass.model.amounts import show_span

if TYPE_CHECKING:
    from grass.api.comparison import Comparison, FigureSide, FileGroups

_MOST_SHOWN = 20
"""Names of files in the table."""


@click.command(cls=Command)
@click.argument("targets", type=JOB, nargs=-1, required=True, metavar="JOB[.TASK]…")
@click.option("--no-files", is_flag=True, help="Do not compare the files in GRASS_OUTPUT.")
@pass_invocation
def compare(invocation: Invocation, targets: Sequence[str], no_files: bool) -> None:
    """Show two or more runs side by side: parameters that differ, figures, and output files by their digests.

    Each is a job, by name (the latest run) or id, or a task such as sweep.main.3. A figure of several tasks is the mean
    of their last values, with the least and the greatest of all values. The dashboard shows the curves beside them.
    """
    found = invocation.client().compare(*targets)
    for job in found.incomplete:
        invocation.output.note(f"job {job}: reported more figures than are kept; those of some tasks are missing")
    for figure, count in found.not_finite.items():
        if count:
            invocation.output.note(not_finite(figure, count))
    files = None if no_files else _files(invocation, found)
    data = {**asdict(found), "files": asdict(files) if files else None}
    rows = _rows(found)

    def lines(width: int | None) -> list[str]:
        columns = [Column(""), *(Column(side.name) for side in found.sides)]
        return [*table(columns, [[name, *cells] for name, cells in rows], width), *(_said(files) if files else [])]

    def raw() -> Rows:
        return ["what", *(side.name for side in found.sides)], [[name, *cells] for name, cells in rows]

    invocation.output.show(Result(data, lines, [name for name, _ in rows], raw))


def _rows(found: Comparison) -> list[tuple[str, list[str]]]:
    rows = [
        ("tasks", [", ".join(f"{count} {state}" for state, count in side.states.items()) for side in found.sides]),
        ("time", [NOTHING if side.seconds is None else show_span(side.seconds) for side in found.sides]),
    ]
    rows += [(name, [value or NOTHING for value in values]) for name, values in found.parameters.items()]
    return rows + [(name, [_figure(side) for side in sides]) for name, sides in found.figures.items()]


def _figure(side: FigureSide | None) -> str:
    if side is None:
        return NOTHING
    return f"{side.last:.5g} ({side.least:.5g} to {side.greatest:.5g})"


def _files(invocation: Invocation, found: Comparison) -> FileGroups | None:
    """Compare the output of the jobs; None: there are not two, or this machine does not reach their files."""
    from grass.api.comparison import grouped
    from grass.cli import transfer
    from grass.files import paths
    from grass.files.operations import DigestFiles, FileDigest

    jobs = {side.job: side.name.partition(".")[0] for side in found.sides}
    names = {job: name if [*jobs.values()].count(name) == 1 else job for job, name in jobs.items()}
    if len(jobs) < 2:
        return None
    digests: dict[str, list[FileDigest]] = {}
    try:
        share = transfer.access(invocation)
        for job, name in names.items():
            try:
                digests[name] = share.ask(DigestFiles(f"{paths.JOBS}/{job}"))
            except NotFoundError:  # it has written nothing
                digests[name] = []
    except GrassError as error:
        invocation.output.note(f"files were not compared: {error}")
        return None
    return grouped(digests)


def _said(files: FileGroups) -> list[str]:
    alone = sum(len(names) for names in files.only.values())
    if not (files.equal or files.differ or alone):
        return ["files: none of them wrote any"]
    counts = [f"{files.equal} equal", f"{len(files.differ)} differ" if files.differ else ""]
    counts += [f"{len(names)} only in {side}" for side, names in files.only.items()]
    unread = f" ({files.unread} too large to be read, compared by size)" if files.unread else ""
    lists: Mapping[str, Sequence[str]] = {"differ": files.differ, **files.only}
    named = [f"  {title}: {_listed(names)}" for title, names in lists.items() if names]
    return [f"files: {', '.join(filter(None, counts))}{unread}", *named]


def _listed(names: Sequence[str]) -> str:
    more = f", and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more
