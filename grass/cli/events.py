"""Define the command `grass events`. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from grass.cli import cells
from grass.cli.amounts import show_instant
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result


@click.command(cls=Command)
@click.option("-f", "--follow", is_flag=True, help="Follow new events.")
@pass_invocation
def events(invocation: Invocation, follow: bool) -> None:
    """Show the events of the cluster and who caused them; oldest first."""
    for event in invocation.client().events(follow=follow):
        invocation.output.record(Result(event, partial(event_lines, event), [str(event["id"])]))


def event_lines(event: Mapping[str, Any], _: int | None) -> list[str]:
    """Return one line for the event. Never cut the line: users search it with grep as often as they read it."""
    subject = " ".join(str(event[key]) for key in ("job", "task", "node") if event.get(key))
    who = f" (by {event['user']})" if event.get("user") else ""
    parts = [show_instant(event["time"]), f"{event['kind']:<16}", subject, event.get("message") or ""]
    return [cells.clean("  ".join(part for part in parts if part).rstrip() + who)]
