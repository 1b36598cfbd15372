"""Define `grass job list`: which jobs, which columns, in which order, once or at each change. Loaded by ``job``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from grass.cli import job_columns
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Format, Result
from grass.cli.values import SINCE, count_or_all
from grass.model.lifecycle import JobState
from grass.system import clock

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView

SHOWN = 100
PAGE = 1000
"""Most jobs that one request can ask for."""
_REDRAW = 0.2
"""Least seconds between two lists of `--watch`."""
Selection = Mapping[str, Any]  # Any: keyword arguments of Client.jobs, of several types
_F = TypeVar("_F", bound=Callable[..., Any])


def _columns(_: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    names = tuple(value.split(",")) if value else job_columns.DEFAULT
    for name in names:
        _known(name)
    return names


def _known(name: str) -> None:
    if name not in job_columns.COLUMNS:
        raise click.BadParameter(f"unknown column {name!r}; use some of {', '.join(job_columns.COLUMNS)}")


def _sort(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        _known(value.removeprefix("-"))
    return value


def _states(_: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    words = [word for text in value for word in text.split(",")]
    for word in words:
        if word.upper() not in JobState.__members__:
            raise click.BadParameter(f"unknown state {word!r}; use some of {', '.join(JobState.__members__)}")
    return tuple(word.upper() for word in words)


@click.command("list", cls=Command)
@click.option("-a", "--all", "all_jobs", is_flag=True, help="Include finished jobs.")
@click.option(
    "--state", callback=_states, multiple=True, metavar="STATE", help="Only jobs in this state, such as failed."
)
@click.option("--tag", multiple=True, metavar="NAME[=VALUE]", help="Only jobs with this tag.")
@click.option("--user", metavar="USER", help="Only jobs of this user.")
@click.option("--name", metavar="GLOB", help="Only jobs whose name matches, such as 'train-*'.")
@click.option("--since", type=SINCE, metavar="T", help="Only jobs submitted since then: 1d, or 2026-03-01T12:00.")
@click.option("--sort", callback=_sort, metavar="COLUMN", help="Sort the shown jobs; -COLUMN: in reverse.")
@click.option("--columns", callback=_columns, metavar="NAMES", help="Columns, such as name,state,ended.")
@click.option("-n", "--limit", metavar="N|all", default=str(SHOWN), show_default=True, help="Show at most N jobs.")
@click.option("--watch", is_flag=True, help="Show the list again whenever it changes.")
@pass_invocation
def list_jobs(
    invocation: Invocation,
    /,
    all_jobs: bool,
    sort: str | None,
    columns: Sequence[str],
    limit: str,
    watch: bool,
    **selection: Any,
) -> None:
    """List active jobs, and why queued ones wait.

    If there are more than --limit, running jobs come first, then the newest. --state includes finished jobs.
    """
    most, client = count_or_all(limit, "--limit"), invocation.client()
    chosen = {name: value for name, value in selection.items() if value not in (None, ())}
    read = partial(_read, client, chosen, all_jobs or "state" in chosen, most)
    for jobs, more in _changing(client, read) if watch else (read(),):
        _show(invocation, job_columns.ordered(jobs, sort), columns, chosen, more, watch, all_jobs)


def _read(client: Client, selection: Selection, all_jobs: bool, most: int | None) -> tuple[list[JobView], int]:
    """Return the jobs, and the number of those that are left out; -1: some, not counted."""
    page = client.newest_jobs(all=all_jobs, limit=PAGE if most is None else min(most, PAGE), **selection)
    jobs, total = [*page.jobs], page.total
    complete = len(jobs) == total if total is not None else not page.more
    if not complete and (most is None or most > PAGE):
        jobs = client.jobs(all=all_jobs, limit=most, **selection)
        complete = most is None or len(jobs) < most
    if complete:
        return jobs, 0
    return jobs, -1 if total is None else max(0, total - len(jobs))


def _changing(client: Client, read: Callable[[], tuple[list[JobView], int]]) -> Iterator[tuple[list[JobView], int]]:
    """Yield the list now, and again after changes of jobs, without end."""
    shown: tuple[list[JobView], int] | None = None
    for piece in client.changes():
        if not piece.complete:
            continue
        found = read()
        if found != shown:
            shown = found
            yield found
            clock.sleep(_REDRAW)


def _show(
    invocation: Invocation,
    jobs: Sequence[JobView],
    columns: Sequence[str],
    selection: Selection,
    more: int,
    watch: bool,
    all_jobs: bool,
) -> None:
    output, now = invocation.output, clock.wall()
    if more and output.format is not Format.TABLE:
        output.warn(job_columns.more_jobs(more))
    nothing = job_columns.no_jobs(all_jobs=all_jobs or "state" in selection, selected=bool(selection))
    lines = partial(job_columns.table_of, jobs, columns, now, nothing=nothing, more=more)
    titles = [job_columns.COLUMNS[name].column.title for name in columns]
    rows = lambda: (titles, job_columns.raw_rows(jobs, columns, now))  # noqa: E731
    result = Result(list(jobs), lines, [one.id for one in jobs], rows)
    if watch:
        output.refresh(result)
    else:
        output.show(result)
