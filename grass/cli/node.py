"""`grass node …`"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from grass import clock
from grass.cli.amounts import NOTHING, show_age, show_reason, show_share
from grass.cli.command import Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, pairs, table
from grass.model.resources import show_memory

_LIST = (
    Column("NAME"),
    Column("STATE"),
    Column("FREE CPU", right=True),
    Column("FREE MEMORY", right=True, drop=2),
    Column("FREE GPU", right=True),
    Column("TASKS", right=True),
    Column("SEEN", right=True, drop=1),
    Column("REASON", wrap=True),
)


@click.group(cls=Group)
def node() -> None:
    """The machines of the cluster."""


@node.command("list")
@pass_invocation
def list_nodes(invocation: Invocation) -> None:
    """Every node: its state, and what it has free of all that it offers."""
    nodes = invocation.client().nodes()
    lines = partial(node_list, nodes, clock.wall())
    invocation.output.show(Result(nodes, lines, [one["name"] for one in nodes]))


@node.command()
@click.argument("name")
@pass_invocation
def show(invocation: Invocation, name: str) -> None:
    """Everything about one node."""
    view = invocation.client().node(name)
    invocation.output.show(Result(view, partial(node_page, view, clock.wall()), [view["name"]]))


def node_list(nodes: Sequence[Mapping[str, Any]], now: float, width: int | None) -> list[str]:
    if not nodes:
        return ["no nodes"]
    return table(_LIST, [_row(view, now) for view in nodes], width)


def _row(view: Mapping[str, Any], now: float) -> list[str]:
    return [
        view["name"],
        view["state"],
        *(show_share(view["free"], view["resources"], name) for name in ("cpu", "memory", "gpu")),
        str(view["tasks"]),
        show_age(view["seen"], now),
        show_reason(view["reason"]),
    ]


def node_page(view: Mapping[str, Any], now: float, width: int | None) -> list[str]:
    usage = view["usage"] or {}
    facts = [
        ("Name", view["name"]),
        ("State", view["state"]),
        ("Reason", show_reason(view["reason"])),
        ("Address", view["address"] or NOTHING),
        ("Version", view["version"] or NOTHING),
        ("Seen", f"{show_age(view['seen'], now)} ago" if view["seen"] else NOTHING),
        ("Tasks", str(view["tasks"])),
        ("Free cpu", show_share(view["free"], view["resources"], "cpu")),
        ("Free memory", show_share(view["free"], view["resources"], "memory")),
        ("Free gpu", show_share(view["free"], view["resources"], "gpu")),
        ("Cpu used", f"{usage['cpu']:g}%" if "cpu" in usage else NOTHING),
        ("Memory used", show_memory(usage["memory"]) if "memory" in usage else NOTHING),
        ("Load", f"{usage['load']:g}" if "load" in usage else NOTHING),
        ("Disk free", show_memory(usage["disk_free"]) if "disk_free" in usage else NOTHING),
    ]
    return pairs([(key, value) for key, value in facts if value], width)
