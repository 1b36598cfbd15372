"""Define the command `grass node token`. Loaded by ``node``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from grass.cli.amounts import NOTHING, show_instant
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, table
from grass.cli.values import DURATION, Whole
from grass.errors import InputError
from grass.model.amounts import show_span
from grass.system import clock

if TYPE_CHECKING:
    from grass.wire.join_views import JoinTokenRow

_LIST = (
    Column("ID"),
    Column("STATE"),
    Column("FOR"),
    Column("USES", right=True),
    Column("EXPIRES"),
    Column("BY", drop=2),
    Column("NODES", drop=1, wrap=True),
)


@click.command(cls=Command)
@click.option("--name", metavar="NAME", help="Accept only a node of this name.")
@click.option("--expires", type=DURATION, default="1h", show_default=True, help="How long the token is valid.")
@click.option("--uses", type=Whole(1, 1000), default=1, show_default=True, help="How many machines may join with it.")
@click.option("--list", "listed", is_flag=True, help="List the tokens instead, without their secrets.")
@click.option("--revoke", metavar="ID", help="Revoke a token instead, by its id in the list. Its nodes stay.")
@pass_invocation
def token(
    invocation: Invocation, name: str | None, expires: float, uses: int, listed: bool, revoke: str | None
) -> None:
    """Create a join token; on the new machine, run `grass join --token TOKEN`."""
    if listed and revoke is not None:
        raise InputError("--list and --revoke: give one of them")
    if revoke is not None:
        row = invocation.client().revoke_join_token(revoke)
        invocation.output.show(Result(row, lambda _: [f"join token {row.id}: revoked"], [row.id]))
    elif listed:
        rows = invocation.client().join_tokens()
        invocation.output.show(Result(rows, partial(token_list, rows), [row.id for row in rows]))
    else:
        _make(invocation, name, expires, uses)


def _make(invocation: Invocation, name: str | None, expires: float, uses: int) -> None:
    from grass.api.invitation import parse_token

    made = invocation.client().join_token(name, expires, uses)
    text = made.token
    invocation.output.show(Result(made, lambda _: [text], [text]))
    invitation = parse_token(text)
    whom = name or ("one machine" if uses == 1 else f"{uses} machines")
    invocation.output.note(f"valid for {whom}, for {show_span(made.expires - clock.wall() + 0.5)}; keep it secret")
    if invitation.bundle:
        url = invitation.urls[0]
        invocation.output.note(f"on a machine without Grass: curl -sSf {url}/v1/join.py | sudo python3 - --token TOKEN")
    invocation.output.note("on a machine with Grass: sudo grass join --token TOKEN")


def token_list(rows: Sequence[JoinTokenRow], width: int | None) -> list[str]:
    if not rows:
        return ["no join tokens"]
    return table(_LIST, [_row(row) for row in rows], width)


def _row(row: JoinTokenRow) -> list[str]:
    nodes = ", ".join(row.nodes) or NOTHING
    return [
        row.id,
        row.state,
        row.name or "any",
        str(row.uses),
        show_instant(row.expires),
        row.by,
        nodes,
    ]
