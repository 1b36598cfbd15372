"""Render job and task views as lines. Pure: takes views (docs/reference/wire.md) and the time, returns lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grass.cli.amounts import (
    NOTHING,
    show_age,
    show_counts,
    show_instant,
    show_progress,
    show_reason,
)
from grass.cli.table import Column, pairs, paragraph, table
from grass.model.amounts import show_span
from grass.model.lifecycle import JobState

View = Mapping[str, Any]

_LIST = (
    Column("NAME"),
    Column("ID", drop=3),
    Column("STATE"),
    Column("TASKS"),
    Column("USER", drop=2),
    Column("AGE", drop=1, right=True),
    Column("REASON", wrap=True),
)
_COMPONENTS = (Column("COMPONENT"), Column("TASKS"), Column("REASON", wrap=True))
_TASKS = (
    Column("TASK"),
    Column("STATE"),
    Column("ATTEMPT", drop=3, right=True),
    Column("NODE", drop=1),
    Column("EXIT", right=True),
    Column("TIME", drop=2, right=True),
    Column("PORTS", drop=4),
    Column("REASON", wrap=True),
)


def job_list(jobs: Sequence[View], all_jobs: bool, now: float, width: int | None, more: int = 0) -> list[str]:
    """Return the table of jobs. ``more``: the number of jobs that are not in ``jobs``."""
    if not jobs and not more:
        return ["no jobs" if all_jobs else "no active jobs; use --all to include finished jobs"]
    lines = table(_LIST, [_list_row(job, now) for job in jobs], width)
    return [*lines, *paragraph(more_jobs(more), width)] if more else lines


def more_jobs(count: int) -> str:
    return f"… and {count} more jobs; --limit all shows them"


def _list_row(job: View, now: float) -> list[str]:
    return [
        job["name"],
        job["id"],
        job["state"],
        show_progress(job["state"], job["counts"]),
        job["user"] or NOTHING,
        show_age(job["submitted"], now),
        job_reason(job),
    ]


def job_reason(job: View) -> str:
    """Return the job's own reason; for a job without a reason, why parts of the job wait."""
    if job["reason"] is not None or JobState(job["state"]).ended:
        return show_reason(job["reason"])
    waiting = [f"{name}: {show_reason(part['reason'])}" for name, part in job["components"].items() if part["reason"]]
    return "; ".join(waiting)


def job_line(job: View) -> str:
    """Return one line with the job's progress, for a waiting user."""
    reason = job_reason(job)
    return f"{job['name']}: {job['state']}, {show_counts(job['counts'])}" + (f" ({reason})" if reason else "")


def job_page(job: View, shown: Sequence[View], task_count: int, now: float, width: int | None) -> list[str]:
    """Return the lines for a job, its components and the tasks in ``shown`` (out of ``task_count`` tasks)."""
    lines = pairs(_job_facts(job, now), width)
    lines += ["", *table(_COMPONENTS, [_component_row(*item) for item in job["components"].items()], width)]
    if shown:
        lines += ["", *table(_TASKS, [_task_row(task, now) for task in shown], width)]
    if len(shown) < task_count:
        lines += paragraph(f"… and {task_count - len(shown)} more tasks; --tasks all shows them", width)
    for warning in job["warnings"]:
        lines += ["", *paragraph(f"warning: {warning}", width)]
    return lines


def _job_facts(job: View, now: float) -> list[tuple[str, str]]:
    facts = [
        ("Name", job["name"]),
        ("Id", job["id"]),
        ("State", job["state"]),
        ("Reason", show_reason(job["reason"])),
        ("User", job["user"] or ""),
        ("Schedule", job["schedule"] or ""),
        ("Submitted", show_instant(job["submitted"])),
        ("Started", show_instant(job["started"])),
        ("Ended", show_instant(job["ended"])),
        ("Ran for", _ran_for(job, now)),
        ("Exit code", "" if job["exit_code"] is None else str(job["exit_code"])),
        ("Restarts", str(job["restarts"] or "")),
        ("Tasks", show_counts(job["counts"])),
    ]
    return [(key, value) for key, value in facts if value not in ("", NOTHING)]


def _ran_for(view: View, now: float) -> str:
    """Return how long a task or job has run. Start and end may come from clocks of different machines."""
    if view["started"] is None:
        return NOTHING
    return show_span((now if view["ended"] is None else view["ended"]) - view["started"])


def _component_row(name: str, part: View) -> list[str]:
    return [name, show_counts(part["counts"]), show_reason(part["reason"])]


def _task_row(task: View, now: float) -> list[str]:
    ports = task["ports"] or {}
    return [
        task["task"],
        task["state"],
        str(task["attempt"] or NOTHING),
        task["node"] or NOTHING,
        _exit(task),
        _ran_for(task, now),
        ",".join(f"{name}={port}" for name, port in ports.items()) or NOTHING,
        show_reason(task["reason"]),
    ]


def _exit(task: View) -> str:
    if task["signal"] is not None:
        return f"signal {task['signal']}"
    return NOTHING if task["exit_code"] is None else str(task["exit_code"])


def stop_waits(answer: Mapping[str, Any]) -> list[str]:
    """Return what a stopping job still waits for. ``answer``: a *why view*."""
    return [
        f"waits for {group['count']} task{'s' if group['count'] > 1 else ''} of {group['component']}: "
        f"{show_reason(group['reason'])}"
        for group in answer["groups"]
        if group["reason"]
    ]
