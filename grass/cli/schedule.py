"""Define the commands `grass schedule …`. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from grass.cli.amounts import NOTHING, show_instant, show_reason
from grass.cli.command import Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, pairs, table
from grass.cli.values import SCHEDULE
from grass.model.schedule import ScheduleKind

if TYPE_CHECKING:
    from grass.wire.views import RunView, ScheduleView

_LIST = (
    Column("NAME"),
    Column("STATE"),
    Column("CRON", drop=1),
    Column("NEXT"),
    Column("LAST", drop=2),
    Column("JOBS", right=True),
    Column("LATEST", drop=4),
    Column("USER", drop=3),
    Column("REASON", wrap=True),
)


_RUNS = (Column("RUN"), Column("STATE"), Column("EXIT", right=True), Column("STARTED"), Column("ENDED", drop=1))


@click.group(cls=Group)
def schedule() -> None:
    """Start batches of jobs, and jobs by the clock."""


@schedule.command()
@click.argument("file", type=click.Path(path_type=Path))
@pass_invocation
def start(invocation: Invocation, file: Path) -> None:
    """Start the schedule in FILE: a batch of job names, or a cron rule."""
    view = invocation.client().start_schedule(file)
    for warning in () if view.warnings is UNSET else view.warnings:
        invocation.output.warn(warning)
    invocation.output.show(Result(view, lambda _: [f"{view.name}  {view.state.value}"], [view.name]))


@schedule.command("list")
@pass_invocation
def list_schedules(invocation: Invocation) -> None:
    """List the schedules, and when each runs next."""
    views = invocation.client().schedules()
    invocation.output.show(Result(views, partial(schedule_list, views), [one.name for one in views]))


@schedule.command()
@click.argument("name", type=SCHEDULE)
@pass_invocation
def show(invocation: Invocation, name: str) -> None:
    """Show one schedule in detail, with its jobs."""
    view = invocation.client().schedule(name)
    invocation.output.show(Result(view, partial(schedule_page, view), [view.name], items="runs"))


@schedule.command()
@click.argument("name", type=SCHEDULE)
@pass_invocation
def stop(invocation: Invocation, name: str) -> None:
    """Stop a schedule: it starts no more jobs. Jobs of a batch are stopped; a run of a cron rule continues."""
    view = invocation.client().stop_schedule(name)
    invocation.output.show(Result(view, lambda _: [f"{view.name}  {view.state.value}"], [view.name]))


@schedule.command()
@click.argument("name", type=SCHEDULE)
@pass_invocation
def pause(invocation: Invocation, name: str) -> None:
    """Pause a cron rule: it starts nothing until it is resumed. Its current run continues."""
    _confirm(invocation, invocation.client().pause_schedule(name))


@schedule.command()
@click.argument("name", type=SCHEDULE)
@pass_invocation
def resume(invocation: Invocation, name: str) -> None:
    """Resume a paused cron rule. Start times that have passed are skipped."""
    _confirm(invocation, invocation.client().resume_schedule(name))


@schedule.command("run-now")
@click.argument("name", type=SCHEDULE)
@pass_invocation
def run_now(invocation: Invocation, name: str) -> None:
    """Start the job of a cron rule now, or the jobs of a finished batch again."""
    view = invocation.client().run_schedule(name)
    started = view.jobs[-1:] if view.kind is ScheduleKind.CRON else view.jobs
    invocation.output.show(Result(view, lambda _: list(started) or [f"{name}  {view.state.value}"], started))


@schedule.command()
@click.argument("name", type=SCHEDULE)
@pass_invocation
def delete(invocation: Invocation, name: str) -> None:
    """Remove a schedule. Its jobs stay; a batch with active jobs must be stopped first."""
    view = invocation.client().delete_schedule(name)
    invocation.output.show(Result(view, lambda _: [f"{view.name}  deleted"], [view.name]))


def _confirm(invocation: Invocation, view: ScheduleView) -> None:
    invocation.output.show(Result(view, lambda _: [f"{view.name}  {view.state.value}"], [view.name]))


def schedule_list(views: Sequence[ScheduleView], width: int | None) -> list[str]:
    if not views:
        return ["no schedules"]
    return table(_LIST, [_row(view) for view in views], width)


def _row(view: ScheduleView) -> list[str]:
    return [
        view.name,
        view.state.value,
        view.cron or NOTHING,
        show_instant(view.next),
        show_instant(view.last),
        str(len(view.jobs)),
        "".join(run.state for run in _runs(view)[-1:]) or NOTHING,
        view.user or NOTHING,
        show_reason(view.reason),
    ]


def schedule_page(view: ScheduleView, width: int | None) -> list[str]:
    facts = [
        ("Name", view.name),
        ("State", view.state.value),
        ("Reason", show_reason(view.reason)),
        ("User", view.user or ""),
        ("Cron", view.cron or ""),
        ("Time zone", (view.time_zone or "") if view.cron else ""),
        ("Next", show_instant(view.next)),
        ("Last", show_instant(view.last)),
        ("Jobs", "" if _runs(view) else ", ".join(str(job) for job in view.jobs)),
    ]
    lines = pairs([(key, value) for key, value in facts if value not in ("", NOTHING)], width)
    runs = [_run_row(run) for run in _runs(view)]
    return [*lines, "", *table(_RUNS, runs, width)] if runs else lines


def _runs(view: ScheduleView) -> tuple[RunView, ...]:
    return () if view.runs is UNSET else view.runs


def _run_row(run: RunView) -> list[str]:
    code = NOTHING if run.exit_code is None else str(run.exit_code)
    return [run.id, run.state.value, code, show_instant(run.started), show_instant(run.ended)]
