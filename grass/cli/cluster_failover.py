"""Define the command `grass cluster failover`. Loaded by ``cluster_logs``."""

from __future__ import annotations

import click

from grass.cli import provisioning
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.provision.provisioner import CanFailOver, need


@click.command(cls=Command)
@click.option("--force", is_flag=True, help="Go on although the standby may lack what was acknowledged last.")
@click.option("--ask-become-pass", is_flag=True, help="Ask for the sudo password first.")
@pass_invocation
def failover(invocation: Invocation, force: bool, ask_become_pass: bool) -> None:
    """Make the standby the master, because the master is lost or is to be stopped.

    The old master is fenced first, if it answers, otherwise when it comes back. Tasks run on. After an interruption,
    run the same command again.
    """
    name = invocation.existing_cluster()
    able = need(provisioning.of_cluster(invocation, name, ask_become_pass=ask_become_pass), CanFailOver)
    made, behind = able.fail_over(force=force)
    said = [f"cluster {name}: the standby is the master now, at {made.url}"]
    if behind:
        said.append(f"it may lack up to {behind:.0f} s of what the old master acknowledged")
    said.append(
        "exchange master and standby in your settings file; `grass create FILE` then makes the old one the standby"
    )
    wire = {"name": name, "url": made.url, "behind": round(behind, 1)}
    invocation.output.show(Result(wire, lambda _: said, [name]))
