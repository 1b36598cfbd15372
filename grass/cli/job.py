"""Define the commands `grass job …`. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grass import clock
from grass.cli import job_views, wait
from grass.cli.command import Group
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Format, Result
from grass.cli.values import DURATION, DURATION_OR_ZERO, JOB, PART, PATTERN, SINCE, Part
from grass.errors import ConflictError
from grass.model.lifecycle import JobState

if TYPE_CHECKING:
    from grass.api.client import View

_TASKS_SHOWN = 20
_JOBS_SHOWN = 100
_PAGE = 1000
"""Most jobs that one request can ask for."""
_LINES = click.IntRange(0, 1_000_000_000)


@click.group(cls=Group, lazy={"pull": "grass.cli.pull:pull", "exec": "grass.cli.exec:execute"})
def job() -> None:
    """Start jobs, watch them, read their logs, stop them."""


@job.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Refuse a job that fits on no node, and treat warnings as errors.")
@pass_invocation
def start(invocation: Invocation, file: Path, strict: bool) -> None:
    """Start the job in FILE.

    Returns as soon as the cluster has stored the job; it then runs independently of this terminal.
    """
    started = invocation.client().start(file, strict=strict)
    for warning in started["warnings"]:
        invocation.output.warn(warning)
    line = f"{started['name']}  {started['id']}"
    invocation.output.show(Result(started, lambda _: [line], [started["id"]]))


@job.command()
@click.argument("file", type=click.Path(path_type=Path))
@pass_invocation
def plan(invocation: Invocation, file: Path) -> None:
    """Show where the job in FILE would run if it were started now, or why it would wait.

    Changes nothing and reserves nothing: other jobs may start first.
    """
    from grass.cli import job_plan

    answer = invocation.client().plan(file)
    for warning in answer["warnings"]:
        invocation.output.warn(warning)
    invocation.output.show(Result(answer, partial(job_plan.page, answer), []))


@job.command("list")
@click.option("-a", "--all", "all_jobs", is_flag=True, help="Include finished jobs.")
@click.option("-n", "--limit", metavar="N|all", default=str(_JOBS_SHOWN), show_default=True)
@pass_invocation
def list_jobs(invocation: Invocation, all_jobs: bool, limit: str) -> None:
    """List active jobs, and why queued ones wait.

    Of many jobs, those that run and the newest of the others are shown.
    """
    most, client = _most(limit, "--limit"), invocation.client()
    page = client.newest_jobs(all=all_jobs, limit=_PAGE if most is None else min(most, _PAGE))
    jobs, more = page["jobs"], page["total"] - len(page["jobs"])
    if more > 0 and (most is None or most > _PAGE):
        jobs = client.jobs(all=all_jobs, limit=most)
        more = max(0, page["total"] - len(jobs))
    if more > 0 and invocation.output.format is not Format.TABLE:
        invocation.output.warn(job_views.more_jobs(more))
    lines = partial(job_views.job_list, jobs, all_jobs, clock.wall(), more=more)
    invocation.output.show(Result(jobs, lines, [one["id"] for one in jobs]))


@job.command()
@click.argument("name", type=JOB)
@click.option("--tasks", "tasks_shown", metavar="N|all", default=str(_TASKS_SHOWN), show_default=True)
@pass_invocation
def show(invocation: Invocation, name: str, tasks_shown: str) -> None:
    """Show one job in detail, with its tasks; failed tasks first."""
    most = _most(tasks_shown, "--tasks")
    client = invocation.client()
    view = client.job(name)
    count = sum(part["replicas"] for part in view["components"].values())
    shown = client.tasks(view["id"], first=count if most is None else most)
    lines = partial(job_views.job_page, view, shown, count, clock.wall())
    invocation.output.show(Result({**view, "tasks": shown}, lines, [task["task"] for task in shown]))


def _most(text: str, option: str) -> int | None:
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit()):
        raise click.BadParameter(f"must be a number or `all`, got {text!r}", param_hint=option)
    return int(text)


@job.command("why")
@click.argument("name", type=JOB)
@pass_invocation
def explain(invocation: Invocation, name: str) -> None:
    """Explain why a job or a part of it does not run or has failed, and what would change that."""
    from grass.cli import why

    client = invocation.client()
    answer = client.why(name)
    invocation.output.show(Result(answer, partial(why.page, answer), []))


@job.command("logs")
@click.argument("name", type=JOB)
@click.argument("part", type=PART, required=False, metavar="[COMPONENT[.INDEX]]")
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the job ends.")
@click.option("--tail", type=_LINES, metavar="N", help="Show only the last N lines of all selected tasks.")
@click.option("--since", type=SINCE, metavar="T", help="Show only newer lines: 10m, or 2026-03-01T12:00.")
@click.option("--grep", type=PATTERN, metavar="RE", help="Show only lines that match this regular expression.")
@click.option("--timestamps", is_flag=True, help="Show the time of each line.")
@pass_invocation
def show_logs(
    invocation: Invocation,
    name: str,
    part: Part | None,
    follow: bool,
    tail: int | None,
    since: float | None,
    grep: str | None,
    timestamps: bool,
) -> None:
    """Show the output of a job's tasks: stdout and stderr in one stream."""
    from grass.cli import logs

    client = invocation.client()
    view = client.job(name)
    records = client.logs(view["id"], part.text if part else None, follow=follow, tail=tail, since=since, grep=grep)
    logs.show(invocation.output, records, logs.Style.of(view, part, timestamps=timestamps))


@job.command("wait")
@click.argument("name", type=JOB)
@click.option("--timeout", type=DURATION, metavar="DURATION", help="Give up after this time, with exit code 124.")
@pass_invocation
def wait_for(invocation: Invocation, name: str, timeout: float | None) -> Exit:
    """Wait until a job has ended. Exit code 0 if it SUCCEEDED, 1 if it failed or was stopped."""
    ended = wait.until_ended(invocation.client(), invocation.output, name, timeout)
    invocation.output.show(Result(ended, lambda _: [job_views.job_line(ended)], []))
    return wait.exit_of(ended)


@job.command()
@click.argument("name", type=JOB)
@click.option(
    "--grace", type=DURATION_OR_ZERO, metavar="DURATION", help="Time between TERM and KILL. [default: the job's own]"
)
@pass_invocation
def stop(invocation: Invocation, name: str, grace: float | None) -> None:
    """Stop a job: send TERM to its processes, and KILL after the grace period.

    For a job that is being stopped already, prints what the job waits for.
    """
    client = invocation.client()
    view = client.stop(name, grace=grace)
    state = JobState(view["state"])
    if state.ended and state is not JobState.STOPPED:
        raise ConflictError(f"job {view['name']}: already {state.value}; nothing to stop")
    waits = job_views.stop_waits(client.why(view["id"])) if state is JobState.STOPPING else []
    _confirm(invocation, view, "stopped before" if state.ended else "stops", waits)


@job.command()
@click.argument("name", type=JOB)
@pass_invocation
def delete(invocation: Invocation, name: str) -> None:
    """Delete a finished job with its logs."""
    view = invocation.client().delete(name)
    _confirm(invocation, view, "deleted")


def _confirm(invocation: Invocation, view: View, verb: str, more: Sequence[str] = ()) -> None:
    lines: Sequence[str] = [f"{view['name']}  {view['id']}  {verb}", *more]
    invocation.output.show(Result(view, lambda _: list(lines), [view["id"]]))
