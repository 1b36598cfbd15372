"""Define `grass job rerun`, `hold`, `release` and `set`. Loaded by ``job``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import JOB, LIMIT, Whole
from grass.model.amounts import show_span

if TYPE_CHECKING:
    from grass.wire.job_views import JobView


@click.command(cls=Command)
@click.argument("name", type=JOB)
@click.option("--failed", is_flag=True, help="Start only the tasks that did not succeed, under their old indexes.")
@click.option("--resume", is_flag=True, help="Start these, and all tasks of components that depend on theirs.")
@pass_invocation
def rerun(invocation: Invocation, name: str, failed: bool, resume: bool) -> None:
    """Start a finished job again: the same specification, as a new run.

    --resume goes on with a pipeline: it starts the step that failed, and the steps that follow it.
    """
    started = invocation.client().rerun(name, failed=failed, resume=resume)
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
@click.option("--priority", type=Whole(0, 1000), metavar="N", help="From 0 to 1000; higher is served first.")
@click.option("--timeout", type=LIMIT, metavar="DURATION", help="Of the job, also longer than before; none: no limit.")
@click.option(
    "--parallelism", metavar="[COMPONENT=]N", multiple=True, help="Most tasks of a component at once; all: no limit."
)
@pass_invocation
def set_job(
    invocation: Invocation, name: str, priority: int | None, timeout: float | None, parallelism: Sequence[str]
) -> None:
    """Change a job that waits or runs: its priority, its time limit, how many of its tasks run at once.

    A time limit counts from when the job began to run, or from now if the job had none.
    """
    if priority is None and timeout is None and not parallelism:
        raise click.UsageError("nothing to change: give --priority, --timeout or --parallelism")
    client = invocation.client()
    limits = _limits(parallelism, client.job(name, specification=False)) if parallelism else None
    view = client.set(name, priority=priority, timeout=timeout, parallelism=limits)
    changed = [] if priority is None else [f"priority {priority}"]
    changed += [] if timeout is None else [f"time limit {show_span(timeout) if timeout else 'none'}"]
    changed += [f"{component} {limit or 'all'} at once" for component, limit in (limits or {}).items()]
    _show(invocation, view, ", ".join(changed))


def _limits(texts: Sequence[str], job: JobView) -> dict[str, int]:
    """Parse ``4``, ``worker=4`` and ``worker=all``. Raises click.BadParameter."""
    found = {}
    for text in texts:
        component, equals, number = text.rpartition("=")
        if not equals and len(job.components) > 1:
            named = ", ".join(job.components)
            raise click.BadParameter(f"must be COMPONENT=N; {job.name} has {named}", param_hint="--parallelism")
        if number != "all" and not (number.isascii() and number.isdigit() and 0 < int(number[:7]) <= 100_000):
            raise click.BadParameter(f"must be from 1 to 100000, or all; got {number!r}", param_hint="--parallelism")
        found[component if equals else next(iter(job.components))] = 0 if number == "all" else int(number)
    return found


def _show(invocation: Invocation, view: JobView, what: str) -> None:
    line = f"{view.name}  {view.id}  {what}"
    invocation.output.show(Result(view, lambda _: [line], [view.id]))
