"""Define `grass job rerun`, `hold`, `release` and `set`. Loaded by ``job``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import JOB, Whole

if TYPE_CHECKING:
    from grass.wire.job_views import JobView


@click.command(cls=Command)
@click.argument("name", type=JOB)
@click.option("--failed", is_flag=True, help="Start only the tasks that did not succeed, under their old indexes.")
@pass_invocation
def rerun(invocation: Invocation, name: str, failed: bool) -> None:
    """Start a finished job again: the same specification, as a new run."""
    started = invocation.client().rerun(name, failed=failed)
    for warning in started.warnings:
        invocation.output.warn(warning)
    line = f"{started.name}  {started.id}"
    invocation.output.show(Result(started, lambda _: [line], [started.id]))


@click.command(cls=Command)
@click.argument("name", type=JOB)
@pass_invocation
def hold(invocation: Invocation, name: str) -> None:
    """Hold a queued job: none of its tasks starts until it is released."""
    _show(invocation, invocation.client().hold(name), "held")


@click.command(cls=Command)
@click.argument("name", type=JOB)
@pass_invocation
def release(invocation: Invocation, name: str) -> None:
    """Let a held job start."""
    _show(invocation, invocation.client().release(name), "released")


@click.command("set", cls=Command)
@click.argument("name", type=JOB)
@click.option(
    "--priority", type=Whole(0, 1000), required=True, metavar="N", help="From 0 to 1000; higher is served first."
)
@pass_invocation
def set_priority(invocation: Invocation, name: str, priority: int) -> None:
    """Change a queued job."""
    view = invocation.client().set_priority(name, priority)
    _show(invocation, view, f"priority {view.priority}")


def _show(invocation: Invocation, view: JobView, what: str) -> None:
    line = f"{view.name}  {view.id}  {what}"
    invocation.output.show(Result(view, lambda _: [line], [view.id]))
