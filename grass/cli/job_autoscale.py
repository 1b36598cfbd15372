"""Define the command `grass job autoscale`: which sizes Grass would give to components, and why. Loaded by ``job``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, paragraph, table
from grass.cli.values import JOB

if TYPE_CHECKING:
    from grass.wire.autoscale_views import AutoscaleView, ComponentAutoscale

_COLUMNS = (
    Column("COMPONENT"),
    Column("SIZE", right=True),
    Column("BOUNDS", drop=2),
    Column("NOW"),
    Column("WHY", wrap=True),
)


@click.command("autoscale", cls=Command)
@click.argument("name", type=JOB)
@click.option("--explain", is_flag=True, help="Also show what was looked at: speed, what waits, the planner's answer.")
@pass_invocation
def show_autoscale(invocation: Invocation, name: str, explain: bool) -> None:
    """Show what Grass would do now with the size of each component, and why. Nothing is changed by this.

    Components with `min` and `max` but without `autoscale` are shown, too: what would be done if they had it.
    """
    found = invocation.client().autoscale(name)
    invocation.output.show(Result(found, partial(page, found, explain), [each.component for each in found.components]))


def page(found: AutoscaleView, explain: bool, width: int | None) -> list[str]:
    if not explain:
        return table(_COLUMNS, [_row(each) for each in found.components], width)
    lines = []
    for each in found.components:
        name, size, bounds, does, why = _row(each)
        lines += [
            *paragraph(
                f"{found.name}/{name}: {size} task{'s' * (each.size != 1)} ({bounds}, {each.policy}): {does}: {why}",
                width,
            )
        ]
        lines += [line for fact in each.facts for line in paragraph(fact, width, 2)]
    return lines


def _row(each: ComponentAutoscale) -> tuple[str, str, str, str, str]:
    bounds = f"{each.min} to {each.max}" + (f" in units of {each.unit}" if each.unit > 1 else "")
    does = f"{each.size} → {each.to_size}" if each.to_size != each.size else "stays"
    why = each.why if each.enabled else f"{each.why} (only if its file had `autoscale`)"
    return each.component, str(each.size), bounds, does, why
