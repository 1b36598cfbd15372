"""Define the command `grass shares`. Loaded by ``main``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, table
from grass.model.amounts import show_quantity

if TYPE_CHECKING:
    from grass.wire.user_views import FairSharesView, UserFairShare

_USERS = (
    Column("TURN", right=True),
    Column("USER"),
    Column("NOW", right=True),
    Column("PAST", right=True),
    Column("HOURS", right=True, drop=1),
    Column("RUNNING", right=True),
    Column("WAITING", right=True),
    Column("ALLOCATED", wrap=True),
)
_QUEUE = (Column("POSITION", right=True), Column("JOB"), Column("USER"), Column("WHY", wrap=True))


@click.command(cls=Command)
@pass_invocation
def shares(invocation: Invocation) -> None:
    """Show who has how much of the cluster, and whose jobs are served next."""
    view = invocation.client().shares()
    names = [user.user for user in view.users]
    invocation.output.show(Result(view, partial(fair_share_lines, view), names, items="users"))


def fair_share_lines(view: FairSharesView, width: int | None) -> list[str]:
    """Return the table of users, and that of waiting jobs if there are any."""
    users = [
        (
            str(turn),
            user.user,
            f"{100 * user.share:.0f} %",
            f"{100 * user.past:.0f} %",
            f"{user.hours:.2f}",
            str(user.running),
            str(user.waiting),
            _allocated(user),
        )
        for turn, user in enumerate(view.users, 1)
    ]
    queue = [
        (str(position), each.job or "(of another user)", each.user, each.why)
        for position, each in enumerate(view.queue, 1)
    ]
    return [*table(_USERS, users, width), *(["", *table(_QUEUE, queue, width)] if queue else [])]


def _allocated(user: UserFairShare) -> str:
    """Return what the user's tasks have, and of how much if there is a quota: ``cpu 4 of 8, memory 2GiB``."""
    amounts, quota = user.allocated, user.quota
    return ", ".join(
        f"{name} {show_quantity(name, amounts.get(name, 0))}"
        + (f" of {show_quantity(name, quota[name])}" if name in quota else "")
        for name in sorted({*amounts, *quota})
        if amounts.get(name) or name in quota
    )
