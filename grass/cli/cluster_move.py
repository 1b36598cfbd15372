"""Define the command `grass cluster move`. Loaded by ``cluster_logs``."""

from __future__ import annotations

import click

from grass.cli import provisioning
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.provision.provisioner import CanMove, MoveRequest, need


@click.command(cls=Command)
@click.option("--to", required=True, metavar="[USER@]HOST[:PORT]", help="The machine of the new master.")
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="Private key for SSH to it.")
@click.option("--become", type=click.Choice(["none", "sudo"]), help="How to become root. [default: as on the master]")
@click.option("--nodes-later", is_flag=True, help="Go on although nodes are away, or cannot be told of the new master.")
@click.option("--plan", is_flag=True, help="Print what would be done, and change nothing.")
@click.option("--ask-become-pass", is_flag=True, help="Ask for the sudo password first.")
@pass_invocation
def move(
    invocation: Invocation,
    to: str,
    key: str | None,
    become: str | None,
    nodes_later: bool,
    plan: bool,
    ask_become_pass: bool,
) -> None:
    """Make another machine the master of a cluster on several hosts, while its tasks run.

    The cluster answers nobody for some seconds. Until the old master is fenced, it goes on if anything fails. After an
    interruption, run the same command again.
    """
    name = invocation.existing_cluster()
    mover = need(provisioning.of_cluster(invocation, name, ask_become_pass=ask_become_pass), CanMove)
    lines: list[str] = []
    moved = mover.move(MoveRequest(to, key, become, nodes_later, lines.append if plan else None))
    if plan:
        invocation.output.show(Result({"name": name, "plan": lines}, lambda _: lines, [name]))
        return
    wire = {"name": name, "url": moved.url, "away": round(moved.away, 1) or None}
    away = f"; it was away for {moved.away:.1f} s" if moved.away else ""
    said = [f"cluster {name} has moved to {moved.url}{away}"]
    said += ["write the new address into your settings file; the old machine, while it runs, sends other users there"]
    invocation.output.show(Result(wire, lambda _: said, [name]))
