"""Define the command `grass events`. Loaded by ``main``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from grass.cli import cells, serial
from grass.cli.amounts import show_instant
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import JOB, NODE, SINCE, ParamType, Whole
from grass.model.event_kind import EventKind
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.wire.event_views import EventView


class Kind(ParamType):
    """A kind of events, or the beginning of some kinds and ``*``."""

    name = "kind"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        kinds = [kind.value for kind in EventKind]
        if not any(kind.startswith(value[:-1]) if value.endswith("*") else kind == value for kind in kinds):
            import difflib

            meant = difflib.get_close_matches(value, kinds, 1)
            hint = f"did you mean `{meant[0]}`?" if meant else f"use some of {', '.join(kinds)}"
            self.fail(f"unknown kind {value!r}; {hint}", param, ctx)
        return value


@click.command(cls=Command)
@click.option("-f", "--follow", is_flag=True, help="Follow new events.")
@click.option("--job", type=JOB, metavar="NAME", help="Only events of this job.")
@click.option("--node", type=NODE, metavar="NAME", help="Only events of this node.")
@click.option("--user", metavar="NAME", help="Only what this user did.")
@click.option(
    "--kind",
    type=Kind(),
    multiple=True,
    metavar="KIND",
    help="Only events of this kind; `task-*` for all that begin so.",
)
@click.option("--since", type=SINCE, metavar="T", help="Only newer events: 10m, or 2026-03-01T12:00.")
@click.option("--tail", type=Whole(0, 10_000), default=1000, metavar="N", help="The newest N.  [default: 1000]")
@pass_invocation
def events(
    invocation: Invocation,
    follow: bool,
    job: str | None,
    node: str | None,
    user: str | None,
    kind: tuple[str, ...],
    since: float | None,
    tail: int,
) -> None:
    """Show the events of the cluster and who caused them; oldest first."""
    some = False
    for event in invocation.client().events(follow, job, tail, node, user, kind, since):
        some = True
        rows = partial(serial.rows_of, {**dict.fromkeys(_COLUMNS), **builtins(event)})
        invocation.output.record(Result(event, partial(event_lines, event), [event.id], rows))
    if not some and tail:
        invocation.output.note("no such events")


_COLUMNS = ("time", "kind", "message", "user", "job", "task", "node", "schedule", "by", "address", "id")
"""Columns in CSV. An event has only those that apply to it."""


def event_lines(event: EventView, _: int | None) -> list[str]:
    """Return one line for the event. Never cut the line: users search it with grep as often as they read it."""
    subject = " ".join(each for each in (event.job, event.task, event.node) if each)
    where = f" from {event.address}" if event.address else ""
    who = f" (by {event.user}{where})" if event.user else ""
    who += f" (for job {event.by})" if event.by else ""
    parts = [show_instant(event.time), f"{event.kind:<20}", subject, event.message]
    return [cells.clean("  ".join(part for part in parts if part).rstrip() + who)]
