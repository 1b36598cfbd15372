"""Define the command `grass cost`: what the machines of a cluster in a cloud cost by list price. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from grass.cli import provisioning
from grass.cli.amounts import NOTHING, show_instant
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, paragraph, table
from grass.errors import GrassError
from grass.provision.provisioner import CanTellCosts, need

if TYPE_CHECKING:
    from grass.wire.cloud import CloudCost, CloudCosts

_TELL_SECONDS = 5.0
_COLUMNS = (
    *(Column("MACHINE"), Column("STATE"), Column("SIZE", drop=1), Column("HOURS ON", right=True)),
    *(Column("NOW PER HOUR", right=True), Column("SPENT", right=True)),
)


@click.command(cls=Command)
@pass_invocation
def cost(invocation: Invocation) -> None:
    """Print what the machines of a cluster in a cloud (Azure) cost now, and have cost, by list price.

    A machine is counted with its disk and address. What is counted, and what is not, follows the table.
    """
    costs = need(provisioning.of_cluster(invocation), CanTellCosts).costs()
    _tell(invocation, costs)
    hourly = costs.hourly
    wire = {
        "since": costs.since,
        "hourly": hourly,
        "spent": costs.spent,
        "complete": costs.whole,
        "machines": [_wire(one) for one in costs.machines],
        "limits": list(costs.limits),
    }
    invocation.output.show(Result(wire, lambda width: list(_lines(costs, hourly, width)), [f"{wire['spent']:.2f}"]))


def _tell(invocation: Invocation, costs: CloudCosts) -> None:
    """Tell the master, for the dashboard, if it answers."""
    from grass.api.client import Client

    with suppress(GrassError), Client(invocation.cluster, timeout=_TELL_SECONDS) as client:
        client.tell_cloud(costs=costs)


def _wire(one: CloudCost) -> dict[str, object]:
    return {
        "name": one.name,
        "what": one.what,
        "state": one.state,
        "hours": round(one.hours, 3),
        "hourly": one.hourly,
        "spent": one.spent,
        "complete": one.whole,
    }


def _lines(costs: CloudCosts, hourly: float | None, width: int | None) -> Iterator[str]:
    rows = [
        (one.name, one.state, one.what or NOTHING, f"{one.hours:.1f}", *_money(one.hourly, one.spent, one.whole))
        for one in costs.machines
    ]
    yield from table(_COLUMNS, [*rows, ("all", "", "", "", *_money(hourly, costs.spent, costs.whole))], width)
    if hourly is not None:
        yield f"now ${hourly * 24:.2f} a day, ${hourly * 730:.2f} a month; counted since {show_instant(costs.since)}"
    for limit in costs.limits:
        yield from paragraph(limit, width)


def _money(hourly: float | None, spent: float, whole: bool) -> tuple[str, str]:
    return "not known" if hourly is None else f"${hourly:.4f}", f"${spent:.2f}" if whole else f"over ${spent:.2f}"
