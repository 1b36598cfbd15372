"""Define the command `grass node check`: measure nodes, say which are at fault, and end their quarantine.

Loaded by ``node``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from grass.cli.command import Command
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import NODE
from grass.errors import InputError
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.wire.checks import Level

_TAKEN = 30.0
"""Seconds for the master-agent to accept a ticket; only a faulty cluster needs that long."""


@click.command(cls=Command)
@click.argument("names", nargs=-1, type=NODE, metavar="[NODE]…")
@click.option(
    "--level",
    type=click.Choice(["0", "1", "2"]),
    default="0",
    show_default=True,
    help="0: look at the node; 1: also put it under load; 2: also measure the network between the nodes.",
)
@click.option("--image", metavar="IMAGE", help="Measure in containers of this image, such as one with torch and NCCL.")
@click.option("--wait", is_flag=True, help="Wait for nodes that have tasks. Otherwise such a check is refused.")
@click.option("--compare", is_flag=True, help="Compare with the earlier good checks of each node.")
@click.option("--release", is_flag=True, help="Measure nothing; end the quarantine that earlier checks began.")
@pass_invocation
def check(
    invocation: Invocation,
    names: Sequence[str],
    level: str,
    image: str | None,
    wait: bool,
    compare: bool,
    release: bool,
) -> int:
    """Check nodes; without NODE, all that are READY. A node that is at fault gets no new tasks until a good check.

    A check is a job that holds the nodes. At levels 1 and 2 it takes them whole, so nodes with tasks are refused. Exits
    with 1 if a node is at fault, or if that cannot be told.
    """
    client = invocation.client()
    if release:
        if not names or level != "0" or image or wait or compare:
            raise InputError("--release needs the names of nodes, and no other option")
        return _release(invocation, names)
    from grass.api.check_run import check_nodes
    from grass.cli.check_text import checked

    reached = cast("Level", int(level))
    view = check_nodes(client, names, reached, image=image, wait=wait, progress=invocation.output.progress)
    past = {each.verdict.node: client.node_checks(each.verdict.node) for each in view.checks} if compare else None
    bad = [each.verdict.node for each in view.checks if each.verdict.state != "good"]
    invocation.output.show(Result(builtins(view), partial(checked, view, past), bad, items="checks"))
    for each in view.checks:
        _note_quarantine(invocation, each.verdict.node, reached)
    return Exit.JOB_FAILED if bad or view.between or view.unknown else Exit.OK


def _note_quarantine(invocation: Invocation, name: str, level: int) -> None:
    """Say that a check of this level ends no quarantine that needs a higher one."""
    from grass.model.reasons import ReasonCode

    reason = invocation.client().node(name).reason
    if reason is not None and reason.code is ReasonCode.CHECK and reason.details.get("level", 0) > level:
        invocation.output.note(f"node {name} stays in quarantine: {reason.message}")


def _release(invocation: Invocation, names: Sequence[str]) -> int:
    from grass.cli.node_wait import until
    from grass.model.reasons import ReasonCode

    client = invocation.client()
    for name in names:
        until(
            client,
            invocation.output,
            name,
            client.release_node(name),
            lambda view: view is None or view.reason is None or view.reason.code is not ReasonCode.CHECK,
            _TAKEN,
        )
    invocation.output.note(f"released from the quarantine of their checks: {', '.join(names)}")
    return Exit.OK
