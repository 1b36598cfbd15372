"""Define the command `grass node token`. Loaded by ``node``."""

from __future__ import annotations

import click

from grass import clock
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import DURATION
from grass.model.amounts import show_span


@click.command(cls=Command)
@click.option("--name", metavar="NAME", help="Accept only a node of this name.")
@click.option("--expires", type=DURATION, default="1h", show_default=True, help="How long the token is valid.")
@click.option(
    "--uses", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many machines may join with it."
)
@pass_invocation
def token(invocation: Invocation, name: str | None, expires: float, uses: int) -> None:
    """Create a join token; on the new machine, run `grass join --token TOKEN`."""
    from grass.api.invitation import parse_token

    made = invocation.client().join_token(name, expires, uses)
    text: str = made["token"]
    invocation.output.show(Result(made, lambda _: [text], [text]))
    invitation = parse_token(text)
    whom = name or ("one machine" if uses == 1 else f"{uses} machines")
    invocation.output.note(f"valid for {whom}, for {show_span(made['expires'] - clock.wall() + 0.5)}; keep it secret")
    if invitation.bundle:
        url = invitation.urls[0]
        invocation.output.note(f"on a machine without Grass: curl -sSf {url}/v1/join.py | sudo python3 - --token TOKEN")
    invocation.output.note("on a machine with Grass: sudo grass join --token TOKEN")
