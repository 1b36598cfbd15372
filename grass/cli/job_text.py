"""Render job and task views as lines. Pure: takes views (docs/reference/wire.md) and the time, returns lines.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from grass.cli.amounts import (
    NOTHING,
    show_counts,
    show_failure,
    show_instant,
    show_reason,
    tell_failures,
)
from grass.cli.table import Column, pairs, paragraph, table
from grass.cli.usage_text import measured, show_cpu, show_used
from grass.model.amounts import show_memory, show_span

if TYPE_CHECKING:
    from grass.wire.job_record import ComponentRecord, CurrentOperation
    from grass.wire.job_views import JobView, TaskView, WhyView
    from grass.wire.usage import TaskTotals

_COMPONENTS = (Column("COMPONENT"), Column("TASKS"), Column("REASON", wrap=True))
_TASKS = (
    Column("TASK"),
    Column("STATE"),
    Column("ATTEMPT", drop=3, right=True),
    Column("NODE", drop=1),
    Column("EXIT", right=True),
    Column("TIME", drop=2, right=True),
    Column("CPU", drop=5, right=True),
    Column("MEMORY", drop=5, right=True),
    Column("PORTS", drop=4),
    Column("REASON", wrap=True),
)
_SOMETIMES: tuple[tuple[str, Callable[[TaskTotals], str]], ...] = (
    ("GPU", lambda used: show_span(used.gpu) if used.gpu else ""),
    ("GPU MEMORY", lambda used: show_memory(used.gpu_memory) if used.gpu_memory else ""),
    ("READ", lambda used: show_memory(used.read) if used.read else ""),
    ("WRITTEN", lambda used: show_memory(used.written) if used.written else ""),
)
"""Figures of usage with a column only if a task has them."""
_AFTER_NODE = 4


def job_reason(job: JobView) -> str:
    """Return the job's own reason; for a job without a reason, what it is changed to, or why parts of it wait."""
    if job.reason is not None or job.state.ended:
        return show_reason(job.reason)
    if job.operation:
        return current_operation(job.operation)
    waiting = [f"{name}: {show_reason(part.reason)}" for name, part in job.components.items() if part.reason]
    return "; ".join(waiting)


def current_operation(operation: CurrentOperation) -> str:
    """Return what the job is being changed to: ``scale worker: waits for resources for 2 new tasks``."""
    about = f" {operation.component}" if operation.component else ""
    return f"{operation.kind.value}{about}: {operation.message}"


def job_line(job: JobView) -> str:
    """Return one line with the job's progress, for a waiting user."""
    reason = job_reason(job)
    return f"{job.name}: {job.state}, {show_counts(job.counts)}" + (f" ({reason})" if reason else "")


def job_page(
    job: JobView,
    shown: Sequence[TaskView],
    task_count: int,
    now: float,
    width: int | None,
    *,
    curves: Sequence[str] = (),
    phase: str = "",
) -> list[str]:
    """Return the lines for a job, its components and the tasks in ``shown`` (out of ``task_count`` tasks).

    ``curves``: lines to show below the facts. ``phase``: its state in the words of another system.
    """
    lines = pairs(_job_facts(job, phase, now), width)
    if curves:
        lines += ["", *curves]
    lines += ["", *table(_COMPONENTS, [component_row(*item) for item in job.components.items()], width)]
    if shown:
        lines += ["", *_task_table(shown, now, width)]
    if len(shown) < task_count:
        lines += paragraph(f"… and {task_count - len(shown)} more tasks; --tasks all shows them", width)
    for warning in job.warnings:
        lines += ["", *paragraph(f"warning: {warning}", width)]
    return lines


def _task_table(shown: Sequence[TaskView], now: float, width: int | None) -> list[str]:
    """Return the table of tasks, with further columns if a task has something for them."""
    columns, rows = list(_TASKS), [_task_row(task, now) for task in shown]
    for at, column, cells in _further(shown):
        if any(cells):
            columns.insert(at, column)
            for row, cell in zip(rows, cells, strict=True):
                row.insert(at, cell or NOTHING)
    return table(columns, rows, width)


def _further(shown: Sequence[TaskView]) -> Iterator[tuple[int, Column, list[str]]]:
    """Yield columns that not every job has, where each goes, and its cells: devices and bytes that were used, values of
    an array, gaps in logs, whose fault failures were, and ranks of tasks that work together."""
    for title, show in _SOMETIMES:
        yield -2, Column(title, drop=6, right=True), [show(task.usage) if task.usage else "" for task in shown]
    values = [{} if task.values is UNSET else task.values for task in shown]
    named = [",".join(f"{name}={value}" for name, value in each.items()) for each in values]
    yield -1, Column("VALUES", drop=5), named
    yield -1, Column("LOG GAPS", drop=5, right=True), [str(task.log_gaps or "") for task in shown]
    if tell_failures(task.reason for task in shown):
        yield -1, Column("FAILURE", drop=4), [show_failure(task.reason) for task in shown]
    switches = ["" if task.topology is UNSET else "/".join(task.topology) for task in shown]
    yield _AFTER_NODE, Column("SWITCH", drop=4), switches
    yield (
        _AFTER_NODE,
        Column("RANK", drop=3, right=True),
        ["" if task.rank is UNSET else str(task.rank) for task in shown],
    )


def _job_facts(job: JobView, phase: str, now: float) -> list[tuple[str, str]]:
    facts = [
        ("Name", job.name),
        ("Id", job.id),
        ("State", job.state.value),
        ("Phase", phase),
        ("Reason", show_reason(job.reason)),
        ("Failure", show_failure(job.reason)),
        ("User", job.user or ""),
        ("Schedule", job.schedule or ""),
        ("Rerun of", job.rerun_of or ""),
        ("Priority", str(job.priority or "")),
        ("Tags", ", ".join(f"{name}={value}" for name, value in job.tags.items())),
        ("Held by", job.held or ""),
        ("Starts", "" if job.starts is None else show_instant(job.starts)),
        ("Operation", f"{job.operation.id}: {current_operation(job.operation)}" if job.operation else ""),
        ("Submitted", show_instant(job.submitted)),
        ("Started", show_instant(job.started)),
        ("Ended", show_instant(job.ended)),
        ("Ran for", ran_for(job, now)),
        ("Exit code", "" if job.exit_code is None else str(job.exit_code)),
        ("Restarts", _restarts(job)),
        ("Tasks", show_counts(job.counts)),
        ("Used", show_used(job.usage)),
        ("Removed at", show_instant(job.expires)),
    ]
    return [(key, value) for key, value in facts if value not in ("", NOTHING)]


def _restarts(job: JobView) -> str:
    """Return how often tasks and the whole job were started again; empty: never."""
    whole = f"{job.tries} of the whole job" if job.tries else ""
    tasks = f"{job.restarts} of tasks" if whole and job.restarts else str(job.restarts or "")
    return ", ".join(each for each in (whole, tasks) if each)


def ran_for(view: JobView | TaskView, now: float) -> str:
    """Return how long a task or job has run. Start and end may come from clocks of different machines."""
    if view.started is None:
        return NOTHING
    return show_span((now if view.ended is None else view.ended) - view.started)


def component_row(name: str, part: ComponentRecord) -> list[str]:
    where = part.placed if part.on_nodes else ""
    return [name, show_counts(part.counts), "; ".join(each for each in (show_reason(part.reason), where) if each)]


def _task_row(task: TaskView, now: float) -> list[str]:
    ports, used = task.ports or {}, measured(task.usage)
    return [
        task.task,
        task.state.value,
        str(task.attempt or NOTHING),
        task.node or NOTHING,
        _exit(task),
        ran_for(task, now),
        show_cpu(used) if used else NOTHING,
        show_memory(used.memory) if used else NOTHING,
        ",".join(f"{name}={port}" for name, port in ports.items()) or NOTHING,
        show_reason(task.reason),
    ]


def _exit(task: TaskView) -> str:
    if task.signal is not None:
        return f"signal {task.signal}"
    return NOTHING if task.exit_code is None else str(task.exit_code)


def stop_waits(answer: WhyView) -> list[str]:
    """Return what a stopping job still waits for. ``answer``: a *why view*."""
    return [
        f"waits for {group.count} task{'s' if group.count > 1 else ''} of {group.component}: "
        f"{show_reason(group.reason)}"
        for group in answer.groups
        if group.reason
    ]
