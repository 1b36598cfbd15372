"""Define `grass job scale`, `suspend`, `resume`, `restart`, `replace` and `operations`. Loaded by ``job``."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from grass.cli import operation_text
from grass.cli.command import Command
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import DURATION_OR_ZERO, JOB, PART, ParamType, Part, job_and_task
from grass.errors import ConflictError
from grass.model.key_text import task_parts
from grass.system import clock
from grass.wire.operation_record import OperationState, Outcome

if TYPE_CHECKING:
    from grass.wire.job_views import OperationView


class Size(ParamType):
    """The parameter type of a component's new size.

    ``3``, ``+1`` or ``-1``: a size, or a difference. Converts to (size, delta).
    """

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        if not re.fullmatch(r"[+-]?[0-9]{1,7}", value, re.ASCII):
            self.fail(f"must be a number of tasks, or +N or -N; got {value!r}", param, ctx)
        return (None, int(value)) if value[0] in "+-" else (int(value), None)


_SIGNED = {"ignore_unknown_options": True}
"""So that -1 is an argument."""
_DEADLINE = click.option(
    "--deadline", type=DURATION_OR_ZERO, metavar="DURATION", help="How long tasks may take to leave by themselves."
)
_REASON = click.option("--reason", metavar="TEXT", default="", help="Reason, for the list of operations.")
_WAIT = click.option("--wait", is_flag=True, help="Wait until the operation has ended.")


@click.command(cls=Command, context_settings=_SIGNED)
@click.argument("name", type=JOB)
@click.argument("component", type=PART)
@click.argument("size", type=Size(), required=False, metavar="[N|+N|-N]")
@click.option("--remove", type=PART, multiple=True, metavar="TASK", help="A task that leaves first. May be repeated.")
@click.option("--partial", "partial_", is_flag=True, help="Accept as many new tasks as fit.")
@click.option(
    "--deadline",
    type=DURATION_OR_ZERO,
    metavar="DURATION",
    help="How long new tasks may take until they are ready, or tasks may take to leave by themselves.",
)
@_REASON
@_WAIT
@pass_invocation
def scale(
    invocation: Invocation,
    name: str,
    component: Part,
    size: tuple[int | None, int | None] | None,
    remove: tuple[Part, ...],
    partial_: bool,
    deadline: float | None,
    reason: str,
    wait: bool,
) -> Exit:
    """Change the number of tasks of a component while its job runs.

    New tasks become members together, once all of them are ready. Tasks that leave may finish their step first.
    """
    if component.index is not None:
        raise click.BadParameter(f"must be a component, got the task {component.text}", param_hint="COMPONENT")
    for task in remove:
        if task.index is None:
            raise click.BadParameter(f"must be a task such as {task.text}.3, got {task.text}", param_hint="--remove")
    wanted, delta = size or (None, None)
    client = invocation.client()
    names = [task.text for task in remove]
    operation = client.scale(
        name, component.text, wanted, delta=delta, remove=names, partial=partial_, deadline=deadline, reason=reason
    )
    return _shown(invocation, operation, wait)


@click.command(cls=Command)
@click.argument("name", type=JOB)
@_DEADLINE
@_REASON
@_WAIT
@pass_invocation
def suspend(invocation: Invocation, name: str, deadline: float | None, reason: str, wait: bool) -> Exit:
    """Stop all tasks of a job and release its resources, until it is resumed."""
    return _shown(invocation, invocation.client().suspend(name, deadline, reason), wait)


@click.command(cls=Command)
@click.argument("name", type=JOB)
@_REASON
@_WAIT
@pass_invocation
def resume(invocation: Invocation, name: str, reason: str, wait: bool) -> Exit:
    """Queue a suspended job again. Its tasks start from their beginning, or from their own checkpoints."""
    return _shown(invocation, invocation.client().resume(name, reason), wait)


@click.command(cls=Command)
@click.argument("name", type=JOB)
@_DEADLINE
@_REASON
@_WAIT
@pass_invocation
def restart(invocation: Invocation, name: str, deadline: float | None, reason: str, wait: bool) -> Exit:
    """Stop all tasks of a job, and start all of them again. This includes tasks that have ended."""
    return _shown(invocation, invocation.client().restart(name, deadline, reason), wait)


@click.command(cls=Command)
@click.argument("name", type=JOB)
@click.argument("task", type=PART, required=False)
@click.option(
    "--deadline",
    type=DURATION_OR_ZERO,
    metavar="DURATION",
    help="How long it may take until the task runs again. Includes the time to leave by itself.",
)
@_REASON
@_WAIT
@pass_invocation
def replace(
    invocation: Invocation, name: str, task: Part | None, deadline: float | None, reason: str, wait: bool
) -> Exit:
    """Stop one task, and start it again on another node.

    Name it as JOB COMPONENT.INDEX, or in one word as JOB.COMPONENT.INDEX.
    """
    if task is None:
        name, text = job_and_task(name)
    elif task.index is None:
        other = f"; the job comes first: {task.text} {name}" if task_parts(name) else ""
        raise click.BadParameter(
            f"must be COMPONENT.INDEX, such as worker.3; got {task.text}{other}", param_hint="TASK"
        )
    else:
        text = task.text
    return _shown(invocation, invocation.client().replace(name, text, deadline, reason), wait)


@click.command(cls=Command)
@click.argument("name", type=JOB)
@click.option("--cancel", metavar="ID", help="Cancel an operation that waits, or a scale-out that is not complete.")
@pass_invocation
def operations(invocation: Invocation, name: str, cancel: str | None) -> None:
    """List the operations on a job. Each shows who changed its size or moved its tasks, and the result."""
    client = invocation.client()
    if cancel is not None:
        _show(invocation, client.cancel_operation(name, cancel))
        return
    found = client.operations(name)
    lines = partial(operation_text.operation_list, found, clock.wall())
    invocation.output.show(Result(found, lines, [each.id for each in found]))


def _shown(invocation: Invocation, operation: OperationView, wait: bool) -> Exit:
    """Show an operation that was filed. Exit code 1 if it ended without being done."""
    for warning in () if operation.warnings is UNSET else operation.warnings:
        invocation.output.warn(warning)
    if wait and operation.state is not OperationState.ENDED:
        operation = invocation.client().wait_for_operation(operation.job_id, operation.id)
    if operation.outcome is Outcome.REJECTED:
        raise ConflictError(f"operation {operation.id}: rejected; {operation.message}")
    _show(invocation, operation)
    return Exit.OK if operation.outcome in (None, Outcome.DONE, Outcome.PARTIALLY_DONE) else Exit.JOB_FAILED


def _show(invocation: Invocation, operation: OperationView) -> None:
    line = operation_text.operation_line(operation)
    invocation.output.show(Result(operation, lambda _: [line], [operation.id]))
