"""Define the commands `grass schedule …`. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from grass.cli.amounts import NOTHING, show_instant, show_reason
from grass.cli.command import Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, pairs, table
from grass.cli.values import SCHEDULE

_LIST = (
    Column("NAME"),
    Column("STATE"),
    Column("CRON", drop=1),
    Column("NEXT"),
    Column("LAST", drop=2),
    Column("JOBS", right=True),
    Column("USER", drop=3),
    Column("REASON", wrap=True),
)


@click.group(cls=Group)
def schedule() -> None:
    """Batches of jobs, and jobs that start by the clock."""


@schedule.command()
@click.argument("file", type=click.Path(path_type=Path))
@pass_invocation
def start(invocation: Invocation, file: Path) -> None:
    """Start the schedule in FILE: a batch of job names, or a cron rule."""
    view = invocation.client().start_schedule(file)
    for warning in view["warnings"]:
        invocation.output.warn(warning)
    invocation.output.show(Result(view, lambda _: [f"{view['name']}  {view['state']}"], [view["name"]]))


@schedule.command("list")
@pass_invocation
def list_schedules(invocation: Invocation) -> None:
    """Every schedule, and when it runs next."""
    views = invocation.client().schedules()
    invocation.output.show(Result(views, partial(schedule_list, views), [one["name"] for one in views]))


@schedule.command()
@click.argument("name", type=SCHEDULE)
@pass_invocation
def show(invocation: Invocation, name: str) -> None:
    """Everything about one schedule, with its jobs."""
    view = invocation.client().schedule(name)
    invocation.output.show(Result(view, partial(schedule_page, view), [view["name"]]))


@schedule.command()
@click.argument("name", type=SCHEDULE)
@pass_invocation
def stop(invocation: Invocation, name: str) -> None:
    """Stop a schedule: it starts no more jobs. Jobs of a batch are stopped; a run of a cron rule continues."""
    view = invocation.client().stop_schedule(name)
    invocation.output.show(Result(view, lambda _: [f"{view['name']}  {view['state']}"], [view["name"]]))


def schedule_list(views: Sequence[Mapping[str, Any]], width: int | None) -> list[str]:
    if not views:
        return ["no schedules"]
    return table(_LIST, [_row(view) for view in views], width)


def _row(view: Mapping[str, Any]) -> list[str]:
    return [
        view["name"],
        view["state"],
        view["cron"] or NOTHING,
        show_instant(view["next"]),
        show_instant(view["last"]),
        str(len(view["jobs"])),
        view["user"] or NOTHING,
        show_reason(view["reason"]),
    ]


def schedule_page(view: Mapping[str, Any], width: int | None) -> list[str]:
    facts = [
        ("Name", view["name"]),
        ("State", view["state"]),
        ("Reason", show_reason(view["reason"])),
        ("User", view["user"] or ""),
        ("Cron", view["cron"] or ""),
        ("Time zone", view["time_zone"] if view["cron"] else ""),
        ("Next", show_instant(view["next"])),
        ("Last", show_instant(view["last"])),
        ("Jobs", ", ".join(str(job) for job in view["jobs"])),
    ]
    return pairs([(key, value) for key, value in facts if value not in ("", NOTHING)], width)
