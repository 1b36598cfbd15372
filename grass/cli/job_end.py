"""Define `grass job stop` and `grass job delete`, for one job or several. Loaded by ``job``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from grass.cli import job_text
from grass.cli.command import Command
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.selection import Parts, jobs_or_parts, selected
from grass.cli.values import DURATION_OR_ZERO, JOB, JOB_THEN_PARTS
from grass.errors import ConflictError, GrassError
from grass.model.lifecycle import JobState

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView

_TAG = click.option("--tag", multiple=True, metavar="NAME[=VALUE]", help="All jobs with this tag.")
Done = tuple["JobView", Sequence[str]]
"""A job's view, and the lines about it."""


@click.command(cls=Command)
@click.argument("names", type=JOB_THEN_PARTS, nargs=-1, metavar="JOB... | JOB COMPONENT[.INDEX]...")
@_TAG
@click.option(
    "--grace", type=DURATION_OR_ZERO, metavar="DURATION", help="Time between TERM and KILL. [default: the job's own]"
)
@pass_invocation
def stop(invocation: Invocation, names: tuple[str, ...], tag: tuple[str, ...], grace: float | None) -> int:
    """Stop jobs, or only some tasks of one job. Sends TERM to their processes, and KILL after the grace period.

    Tasks that are stopped do not start again; the rest of the job goes on. For a job that is being stopped already,
    prints what the job waits for. Words after the first JOB mean its components and tasks, if it has these.
    """
    client = invocation.client()
    match jobs_or_parts(client, names):
        case Parts(job, parts):
            view = client.stop(job, grace=grace, tasks=parts)
            lines = [f"{view.name}  {view.id}  {task}  stops" for task in parts]
            invocation.output.show(Result(view, lambda _: lines, parts))
            return Exit.OK
        case _:
            chosen = selected(client, names, tag, all_jobs=False)
            return _each(invocation, chosen, lambda name: _stopped(client, name, grace), alone=not tag)


def _stopped(client: Client, name: str, grace: float | None) -> Done:
    view = client.stop(name, grace=grace)
    state = view.state
    if state.ended and state is not JobState.STOPPED:
        raise ConflictError(f"job {view.name}: already {state.value}; nothing to stop")
    waits = job_text.stop_waits(client.why(view.id)) if state is JobState.STOPPING else []
    return view, [_line(view, "stopped before" if state.ended else "stops"), *waits]


@click.command(cls=Command)
@click.argument("names", type=JOB, nargs=-1, metavar="JOB...")
@_TAG
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def delete(invocation: Invocation, names: tuple[str, ...], tag: tuple[str, ...], yes: bool) -> int:
    """Delete finished jobs with their logs. With --tag: all finished jobs that have the tag.

    Asks first if a name means an older run than before, because the newest run was deleted already; and with --tag.
    """
    client = invocation.client()
    chosen = selected(client, names, tag, all_jobs=True)
    questions = [f"Delete {len(chosen)} finished jobs with their logs?"] if tag else []
    if names:
        views = {name: client.job(name, specification=False) for name in chosen}
        _refuse_if_active(views)
        questions = [_question(name, view) for name, view in views.items() if view.newer_deleted is not UNSET]
        chosen = [view.id for view in views.values()]
    if not yes and not all(map(invocation.output.ask, questions)):
        invocation.output.note("nothing was changed")
        return Exit.INTERRUPTED
    return _each(invocation, chosen, lambda job: _deleted(client, job), alone=not tag)


def _refuse_if_active(views: Mapping[str, JobView]) -> None:
    """Raise ConflictError if one of several jobs is active: then none is deleted."""
    active = [name for name, view in views.items() if not view.state.ended]
    if active and len(views) > 1:
        stop = f"stop it first with `grass job stop {active[0]}`"
        raise ConflictError(f"job {active[0]}: still active; {stop}; no job was deleted")


def _question(name: str, view: JobView) -> str:
    return f"{view.newer_deleted} was deleted, and {name} now means the older run {view.id}. Delete it?"


def _deleted(client: Client, job: str) -> Done:
    view = client.delete(job)
    return view, [_line(view, "deleted")]


def _line(view: JobView, verb: str) -> str:
    return f"{view.name}  {view.id}  {verb}"


def _each(invocation: Invocation, names: Sequence[str], act: Callable[[str], Done], *, alone: bool) -> int:
    """Act on each job, and go on after an error. Return the exit code of the first error.

    ``alone``: a single job is a result of its own, and its error is the error of the command.
    """
    if alone and len(names) == 1:
        view, lines = act(names[0])
        invocation.output.show(Result(view, lambda _: list(lines), [view.id]))
        return Exit.OK
    done: list[Done] = []
    code: int = Exit.OK
    for name in names:
        try:
            done.append(act(name))
        except GrassError as error:
            invocation.output.error(str(error), code=error.code)
            code = code or error.exit_code
    views = [view for view, _ in done]
    shown = [line for _, lines in done for line in lines]
    invocation.output.show(Result(views, lambda _: shown, [view.id for view in views]))
    return code
