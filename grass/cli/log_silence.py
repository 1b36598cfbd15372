"""Why a job has no output: none of its tasks started. Used by ``job_logs``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grass.cli.amounts import show_reason
from grass.cli.job_text import job_reason
from grass.cli.values import Part
from grass.model.lifecycle import JobState, TaskState

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView, TaskView

_LOOKED_AT = 50
"""Tasks that are looked at, failed ones first."""
_BEGAN = (TaskState.RUNNING, TaskState.SUCCEEDED)


def why_silent(client: Client, job_id: str, part: Part | None) -> str:
    """Return why there is no output yet. Empty: a task started, and wrote none. ``part``: the chosen tasks."""
    one = part is not None and part.index is not None
    tasks = client.tasks(job_id, part.component if part else None, None if one else _LOOKED_AT)
    if part is not None and one:
        tasks = [task for task in tasks if task.index == part.index]
    return silence(client.job(job_id, specification=False), tasks, part.text if part else "")


def silence(job: JobView, tasks: Sequence[TaskView], part: str) -> str:
    """Return the same from the views of a job and of its tasks. ``part``: the name of the chosen tasks; empty: all."""
    if any(task.started or task.attempt > 1 or task.state in _BEGAN for task in tasks):
        return ""
    if not part and any(job.counts.get(state) for state in _BEGAN):
        return ""
    why = next((show_reason(task.reason) for task in tasks if task.reason), "") or job_reason(job)
    because = f" ({why})" if why else ""
    if job.state.ended:
        return f"{job.name}: {job.state} before {part or 'any task'} started{because}"
    if job.state is JobState.QUEUED or not tasks:
        return f"{job.name}: {job.state}{because}"
    return f"{job.name}: {part or tasks[0].task} has not started: it is {tasks[0].state}{because}"
