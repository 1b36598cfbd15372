"""Define the command `grass shares`. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, table

_USERS = (
    Column("TURN", right=True),
    Column("USER"),
    Column("NOW", right=True),
    Column("PAST", right=True),
    Column("HOURS", right=True, drop=1),
    Column("RUNNING", right=True),
    Column("WAITING", right=True),
)
_QUEUE = (Column("PLACE", right=True), Column("JOB"), Column("USER"), Column("WHY", wrap=True))


@click.command(cls=Command)
@pass_invocation
def shares(invocation: Invocation) -> None:
    """Show who has how much of the cluster, and whose jobs are served next."""
    view = invocation.client().shares()
    names = [user["user"] for user in view["users"]]
    invocation.output.show(Result(view, partial(share_lines, view), names))


def share_lines(view: Mapping[str, Any], width: int | None) -> list[str]:
    """Return the table of users, and that of waiting jobs if there are any."""
    users = [
        (
            str(turn),
            user["user"],
            f"{100 * user['share']:.0f} %",
            f"{100 * user['past']:.0f} %",
            f"{user['hours']:.2f}",
            str(user["running"]),
            str(user["waiting"]),
        )
        for turn, user in enumerate(view["users"], 1)
    ]
    queue = [
        (str(place), each["job"] or "(of another user)", each["user"], each["why"])
        for place, each in enumerate(view["queue"], 1)
    ]
    return [*table(_USERS, users, width), *(["", *table(_QUEUE, queue, width)] if queue else [])]
