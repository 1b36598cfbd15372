"""Define the commands `grass job …`. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from msgspec import UNSET, structs

from grass.cli.command import Group
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import DURATION, JOB, TASKS_SHOWN, count_or_all
from grass.system import clock
from grass.wire.codec import builtins

_NAMED = 50
"""Tasks whose attempts one request asks for by name."""

_OPERATIONS = ("scale", "suspend", "resume", "restart", "replace", "operations")
_LAZY = {
    "start": "grass.cli.job_start:start",
    "rerun": "grass.cli.job_changes:rerun",
    "hold": "grass.cli.job_changes:hold",
    "release": "grass.cli.job_changes:release",
    "set": "grass.cli.job_changes:set_job",
    "list": "grass.cli.job_list:list_jobs",
    "stop": "grass.cli.job_end:stop",
    "delete": "grass.cli.job_end:delete",
    "logs": "grass.cli.job_logs:show_logs",
    "diff": "grass.cli.job_diff:diff",
    "compare": "grass.cli.job_compare:compare",
    "usage": "grass.cli.job_usage:usage",
    "results": "grass.cli.job_results:results",
    **{name: f"grass.cli.job_operations:{name}" for name in _OPERATIONS},
    "pull": "grass.cli.pull:pull",
    "exec": "grass.cli.exec:execute",
    "open": "grass.cli.job_open:open_page",
    "stacks": "grass.cli.job_stacks:show_stacks",
    "signal": "grass.cli.job_signal:send_signal",
    "autoscale": "grass.cli.job_autoscale:show_autoscale",
}


_SECTIONS = {
    "Start and stop": ("start", "stop", "delete", "rerun", "hold", "release", "set", "plan"),
    "Change while it runs": (*_OPERATIONS, "autoscale"),
    "See": ("list", "show", "why", "logs", "results", "compare", "wait", "diff", "usage"),
    "Inside a job": ("exec", "open", "stacks", "signal", "pull"),
}


@click.group(cls=Group, lazy=_LAZY, sections=_SECTIONS)
def job() -> None:
    """Start jobs, watch them, read their logs, stop them."""


@job.command()
@click.argument("file", type=click.Path(path_type=Path))
@pass_invocation
def plan(invocation: Invocation, file: Path) -> None:
    """Show where the job in FILE would run now, or why it would wait.

    Changes nothing and reserves nothing: other jobs may start first.
    """
    from grass.cli import job_plan

    answer = invocation.client().plan(file)
    for warning in answer.warnings:
        invocation.output.warn(warning)
    invocation.output.show(Result(answer, partial(job_plan.page, answer), [], items="components"))


@job.command()
@click.argument("name", type=JOB)
@TASKS_SHOWN
@click.option("--file", "as_file", is_flag=True, help="Only its file, as it was written.")
@pass_invocation
def show(invocation: Invocation, name: str, tasks_shown: str, as_file: bool) -> None:
    """Show one job in detail: its tasks, failed ones first, and what it runs. Secrets are shown as `[REDACTED]`.

    `--file` prints the job file or script as its user wrote it. A job that was not started from a file gets one that
    starts the same job.
    """
    if as_file:
        _show_file(invocation, name)
        return
    from grass.api.foreign_phase import foreign_phase
    from grass.cli import attempt_text, job_media, job_spec, job_text

    most = count_or_all(tasks_shown, "--tasks")
    client = invocation.client()
    view = client.job(name)
    if not view.state.ended:  # with what running tasks have used so far
        view = structs.replace(view, usage=client.job_usage(view.id, first=1, since=clock.wall()).totals)
    count = sum(part.replicas for part in view.components.values())
    shown = client.tasks(view.id, first=count if most is None else most)
    names = [task.task for task in shown if task.attempt > 1]
    attempts = [
        one
        for start in range(0, len(names), _NAMED)
        for one in client.attempts(view.id, ",".join(names[start : start + _NAMED]))
    ]
    scaled = client.operations(view.id) if view.dialect == "TrainingJob" else []
    phase, now = foreign_phase(view, scaled), clock.wall()
    media = job_media.media_of(client, view.id)
    data = {
        **builtins(view),
        "phase": phase,
        "tasks": shown,
        "attempts": attempts,
        "media": job_media.newest(media.media) if media else [],
    }

    def lines(width: int | None) -> list[str]:
        page = job_text.job_page(view, shown, count, now, width, phase=phase)
        page += attempt_text.earlier(attempts, width)
        page += job_media.reported_lines(view.name, media, width) if media else []
        return page if view.specification is UNSET else page + job_spec.spec_lines(view.specification, width)

    invocation.output.show(Result(data, lines, [task.task for task in shown], items="tasks"))


def _show_file(invocation: Invocation, name: str) -> None:
    from grass.cli import cells

    file = invocation.client().job_file(name)
    if not file.original:
        invocation.output.note(f"job {name}: no file of it is kept; this one was written from its specification")
    text = file.text.removesuffix("\n").split("\n")
    lines = [*map(cells.clean, text)] if invocation.output.live else text  # a script may have sequences of a terminal
    invocation.output.show(Result(file, lambda _: lines, lines))


@job.command("why")
@click.argument("name", type=JOB)
@pass_invocation
def explain(invocation: Invocation, name: str) -> None:
    """Explain why a job or a part of it does not run or has failed. Also says what would change that."""
    from grass.cli import why

    client = invocation.client()
    answer = client.why(name)
    invocation.output.show(Result(answer, partial(why.page, answer), [], items="groups"))


@job.command("wait")
@click.argument("names", type=JOB, nargs=-1, metavar="NAME…")
@click.option("--tag", multiple=True, metavar="NAME[=VALUE]", help="All active jobs with this tag.")
@click.option(
    "--any/--all", "first", default=False, help="Of several jobs: wait for the first, or for all. [default: all]"
)
@click.option("--timeout", type=DURATION, metavar="DURATION", help="Give up after this time, with exit code 124.")
@pass_invocation
def wait_for(
    invocation: Invocation, names: Sequence[str], tag: tuple[str, ...], first: bool, timeout: float | None
) -> Exit:
    """Wait until jobs have ended. Exit code 0 if they SUCCEEDED, 1 if one failed or was stopped."""
    from grass.cli import job_text, wait
    from grass.cli.selection import selected

    client, output = invocation.client(), invocation.output
    names = selected(client, names, tag, all_jobs=False)
    if len(names) == 1:
        ended = [wait.until_ended(client, output, names[0], timeout)]
    else:
        ended = wait.until_any_or_all(client, output, names, timeout, first=first)
    data = ended[0] if len(names) == 1 or first else ended
    ids = [] if len(names) == 1 else [view.id for view in ended]
    output.show(Result(data, lambda _: [job_text.job_line(view) for view in ended], ids))
    return max(wait.exit_of(view) for view in ended)
