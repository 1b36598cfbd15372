"""Define the command `grass node scale`: make or remove machines in a cloud, as nodes. Loaded by ``node``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from grass.cli import provisioning
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.node_remove import DRAIN_SECONDS, take_out
from grass.cli.node_text import node_list
from grass.cli.output import Result
from grass.cli.values import DURATION, DURATION_OR_ZERO, ParamType
from grass.errors import InputError
from grass.provision.provisioner import CanScaleNodes, ScaleRequest, need
from grass.system import clock

_MOST = 500


class _Price(ParamType):
    name = "price"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> float:
        text = str(value)
        if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,5})?", text) or not float(text):
            self.fail(f"must be dollars for an hour, above 0, with at most 5 decimals, got {text!r}", param, context)
        return float(text)


@click.command(cls=Command)
@click.argument("sizes", nargs=-1, required=True, metavar="SIZE N…")
@click.option("--zone", metavar="ZONE", help="Zone of new machines. [default: the cloud chooses]")
@click.option("--spot", is_flag=True, help="About Spot nodes: cheap, and taken back at any time. They count apart.")
@click.option(
    "--max-price", type=_Price(), metavar="DOLLARS", help="With --spot: the most for an hour of each new one."
)
@click.option("--or-regular", is_flag=True, help="With --spot: regular nodes in place of those that cannot be had.")
@click.option("--plan", is_flag=True, help="Print what would be made or removed, quotas and prices; change nothing.")
@click.option(
    "--deadline", type=DURATION_OR_ZERO, metavar="DURATION", help="Move tasks of removed nodes after this time."
)
@click.option(
    "--timeout",
    type=DURATION,
    default=DRAIN_SECONDS,
    metavar="DURATION",
    help="How long to wait for tasks of a node to remove; after that, it stays.  [default: 1h]",
)
@click.option("--force", is_flag=True, help="Remove nodes without waiting for their tasks, which start elsewhere.")
@pass_invocation
def scale(
    invocation: Invocation,
    sizes: Sequence[str],
    zone: str | None,
    spot: bool,
    max_price: float | None,
    or_regular: bool,
    plan: bool,
    deadline: float | None,
    timeout: float,
    force: bool,
) -> int:
    """Make or remove nodes in a cloud (Azure), until there are N of each SIZE in all; sizes not named stay as they are.

    For example: `grass node scale Standard_D2s_v3 3 Standard_B2s 0`. Nodes to remove are drained first. After a
    failure, run the same command again.
    """
    output = invocation.output
    wanted = _wanted(sizes)
    if zone is not None and not (zone.isascii() and zone.isdigit() and 1 <= int(zone) <= 9):
        raise InputError(f"--zone: must be a number from 1 to 9, got {zone!r}")
    if not spot and (max_price is not None or or_regular):
        raise InputError("--max-price and --or-regular need --spot")
    provisioner = need(provisioning.of_cluster(invocation), CanScaleNodes)
    patience, move = _ending(timeout, deadline, force=force)
    tell = (lambda line: output.raw(line + "\n")) if plan else None
    scaled = provisioner.scale_nodes(
        ScaleRequest(wanted, zone, tell, spot, max_price, or_regular, patience, move),
        invocation.client(),
        lambda name: take_out(invocation, name, None if force else timeout, deadline, force=force),
    )
    if plan:
        return 0
    failed = [one for one in scaled.nodes if one.error is not None]
    for one in failed:
        output.error(f"{one.label}: {str(one.error).removeprefix(f'{one.label}: ')}", code=one.code)
    views = [one.view for one in scaled.nodes if one.view is not None]
    gone = [f"{name} is removed, with its machine" for name in scaled.removed]
    gone += scaled.lines  # of pools, whose machines are no nodes
    wire = {"nodes": views, "removed": list(scaled.removed), "pools": list(scaled.lines)}
    now = clock.wall()
    if not failed or views or gone:
        # without a node: nothing was to be done, or only to be removed
        output.show(
            Result(
                wire,
                lambda width: [
                    *gone,
                    *(node_list(views, now, width) if views else [] if scaled.lines else ["no node was added"]),
                ],
                [view.name for view in views],
            )
        )
    # what failed is only a part: something exists
    return max((one.exit_code if one.exit_code != 2 else 1 for one in failed), default=0)


def _ending(timeout: float, deadline: float | None, *, force: bool) -> tuple[float, bool]:
    """Return how long tasks on machines that go may end, and whether they start elsewhere after that."""
    if force:
        return 0.0, True
    return (timeout, False) if deadline is None else (min(deadline, timeout), True)


def _wanted(words: Sequence[str]) -> dict[str, int]:
    if len(words) % 2:
        raise InputError(f"SIZE N: a number of nodes must follow each size, got {' '.join(words)}")
    wanted: dict[str, int] = {}
    for size, count in zip(words[::2], words[1::2], strict=True):
        if not (count.isascii() and count.isdigit() and int(count) <= _MOST):
            raise InputError(f"{size}: must be followed by a whole number of nodes from 0 to {_MOST}, got {count!r}")
        if size.lower() in {each.lower() for each in wanted}:
            raise InputError(f"{size}: is named twice")
        wanted[size] = int(count)
    return wanted
