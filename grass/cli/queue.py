"""Define the commands `grass queue …`. Loaded by ``main``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from grass.cli.amounts import NOTHING, show_instant
from grass.cli.command import Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, pairs, table
from grass.cli.values import DURATION, QUEUE
from grass.errors import InputError
from grass.lines import lines_of

if TYPE_CHECKING:
    from grass.wire.queue_api import ItemView, QueueAnswer, QueueView

_LIST = (
    Column("NAME"),
    Column("READY", right=True),
    Column("LEASED", right=True),
    Column("DEAD", right=True),
    Column("DONE", right=True),
    Column("USER", drop=2),
    Column("SNAPSHOTS", drop=1, wrap=True),
)
_ITEMS = (
    Column("ITEM"),
    Column("STATE"),
    Column("TRIES", right=True),
    Column("HOLDER", drop=2),
    Column("WHY", wrap=True),
    Column("VALUE", drop=1, wrap=True),
)
_COUNTS = ("ready", "leased", "dead", "done")


@click.group(cls=Group)
def queue() -> None:
    """Give pieces of work to tasks, each to one at a time."""


@queue.command()
@click.argument("name")
@click.option("--lease", type=DURATION, default="10m", show_default=True, help="How long an item is its getter's.")
@click.option("--tries", type=int, default=3, show_default=True, help="How often an item is given out.")
@pass_invocation
def create(invocation: Invocation, name: str, lease: float, tries: int) -> None:
    """Make a queue."""
    _counted(invocation, name, invocation.client().create_queue(name, lease, tries))


@queue.command()
@click.argument("name", type=QUEUE)
@click.argument("items", nargs=-1)
@click.option("--named", is_flag=True, help="Items are NAME=VALUE. A name that is in the queue is not put again.")
@pass_invocation
def put(invocation: Invocation, name: str, items: tuple[str, ...], named: bool) -> None:
    """Append items: ITEMS, or one for each line of standard input. Print their names."""
    found = items or [line for line in lines_of(sys.stdin.read()) if line]
    values = [_named(item) for item in found] if named else list(found)
    added = invocation.client().put_items(name, values)
    invocation.output.show(Result(added, lambda _: [f"{len(added)} of {len(found)} items were added"], added))


def _named(item: str) -> tuple[str, str]:
    name, sign, value = item.partition("=")
    if not sign:
        raise InputError(f"item {item!r}: --named needs NAME=VALUE")
    return name, value


@queue.command("list")
@pass_invocation
def list_queues(invocation: Invocation) -> None:
    """List the queues, with their numbers of items."""
    views = invocation.client().queues()
    invocation.output.show(Result(views, partial(queue_list, views), [view.name for view in views]))


@queue.command()
@click.argument("name", type=QUEUE)
@pass_invocation
def show(invocation: Invocation, name: str) -> None:
    """Show one queue with its first 1,000 items: dead letters, then leased and ready ones."""
    view = invocation.client().queue(name)
    invocation.output.show(Result(view, partial(queue_page, view), [item.name for item in view.items], items="items"))


@queue.command("retry")
@click.argument("name", type=QUEUE)
@click.argument("items", nargs=-1)
@pass_invocation
def retry_items(invocation: Invocation, name: str, items: tuple[str, ...]) -> None:
    """Make dead letters ready again: ITEMS, or all of them."""
    revived = invocation.client().retry_dead_items(name, items)
    invocation.output.show(Result(revived, lambda _: [f"{len(revived)} items are ready again"], revived))


@queue.command()
@click.argument("name", type=QUEUE)
@click.argument("snapshot")
@pass_invocation
def snapshot(invocation: Invocation, name: str, snapshot: str) -> None:
    """Keep all items that are not done, as of now, as SNAPSHOT. A queue keeps its 8 newest ones."""
    _counted(invocation, name, invocation.client().snapshot_queue(name, snapshot))


@queue.command()
@click.argument("name", type=QUEUE)
@click.argument("snapshot")
@pass_invocation
def restore(invocation: Invocation, name: str, snapshot: str) -> None:
    """Replace all items by those of SNAPSHOT. What tasks hold is given out again."""
    _counted(invocation, name, invocation.client().restore_queue(name, snapshot))


@queue.command()
@click.argument("name", type=QUEUE)
@pass_invocation
def delete(invocation: Invocation, name: str) -> None:
    """Remove a queue with its items and snapshots."""
    answer = invocation.client().delete_queue(name)
    invocation.output.show(Result(answer, lambda _: [f"{name}  deleted"], [name]))


def _counted(invocation: Invocation, name: str, answer: QueueAnswer) -> None:
    words = ", ".join(f"{getattr(answer, each)} {each}" for each in _COUNTS)
    invocation.output.show(Result(answer, lambda _: [f"{name}  {words}"], [name]))


def queue_list(views: Sequence[QueueView], width: int | None) -> list[str]:
    if not views:
        return ["no queues"]
    rows = [
        [view.name, *(str(getattr(view, each)) for each in _COUNTS), view.user, ", ".join(view.snapshots) or NOTHING]
        for view in views
    ]
    return table(_LIST, rows, width)


def queue_page(view: QueueView, width: int | None) -> list[str]:
    facts = [
        ("Name", view.name),
        ("User", view.user),
        ("Job", view.job),
        ("Items", ", ".join(f"{getattr(view, each)} {each}" for each in _COUNTS)),
        ("Lease", f"{view.lease:g} s"),
        ("Tries", str(view.tries)),
        ("Created", show_instant(view.created)),
        ("Snapshots", ", ".join(view.snapshots)),
    ]
    lines = pairs([(key, value) for key, value in facts if value], width)
    return [*lines, "", *table(_ITEMS, [_row(item) for item in view.items], width)] if view.items else lines


def _row(item: ItemView) -> list[str]:
    return [item.name, item.state, str(item.tries), item.holder or NOTHING, item.dead or NOTHING, item.value or NOTHING]
