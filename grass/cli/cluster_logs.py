"""Define the group `grass cluster`, and `grass cluster logs`. Loaded by ``main``."""

from __future__ import annotations

from functools import partial

import click

from grass.cli import cells
from grass.cli.amounts import show_instant
from grass.cli.command import Command, Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import NODE, SINCE, Whole
from grass.model.daemons import SENDING_LOGS
from grass.wire.daemon_line import DaemonLine

_LAZY = {
    "move": "grass.cli.cluster_move:move",
    "failover": "grass.cli.cluster_failover:failover",
    "notice": "grass.cli.node_follow:notice",
}


@click.group(cls=Group, lazy=_LAZY)
def cluster() -> None:
    """Inspect the daemons of the cluster, or make another machine its master. For administrators."""


_HELP = f"""Show the logs of the daemons of master and nodes. They are in the order in which they reached the collector.

DAEMON is one of {", ".join(SENDING_LOGS[:-1])} and {SENDING_LOGS[-1]}.
"""


@cluster.command("logs", cls=Command, help=_HELP)
@click.argument("daemon", type=click.Choice(SENDING_LOGS), metavar="[DAEMON]", required=False)
@click.option("--node", type=NODE, metavar="NAME", help="Only daemons of this node.")
@click.option("-f", "--follow", is_flag=True, help="Follow new entries.")
@click.option("--since", type=SINCE, metavar="T", help="Only newer entries: 10m, or 2026-03-01T12:00.")
@click.option("--tail", type=Whole(0, 10_000), default=1000, metavar="N", help="The newest N.  [default: 1000]")
@pass_invocation
def logs(
    invocation: Invocation, daemon: str | None, node: str | None, follow: bool, since: float | None, tail: int
) -> None:
    some = False
    for line in invocation.client().daemon_logs(daemon, node, follow, tail, since):
        some = True
        invocation.output.record(Result(line, partial(daemon_lines, line), [line.text]))
    if not some and tail:
        invocation.output.note("no such entries")


def daemon_lines(line: DaemonLine, _: int | None) -> list[str]:
    """Return the entry with its head before the first of its lines."""
    first, *others = [cells.clean(each) for each in line.text.split("\n")]
    head = f"{show_instant(line.time)}  {line.node or 'master'}  {line.daemon}  {line.level:<8}"
    return [f"{head} {first}".rstrip(), *(f"    {other}" for other in others)]
