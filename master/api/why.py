"""The answer to "why does it not run": the planner's own reasons, grouped, each with what would change it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from grass.model.job import Job
from grass.model.lifecycle import TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.wire.job_record import JobRecord
from grass.wire.views import TaskView, WhyGroup, WhyView

_SILENT = (TaskState.ASSIGNED, TaskState.RUNNING, TaskState.SUCCEEDED)
"""States that are progress, so nobody asks why."""

_LATE = (
    *(ReasonCode.NOT_READY, ReasonCode.IMAGE, ReasonCode.DISK, ReasonCode.SHARE, ReasonCode.RUNTIME),
    ReasonCode.STUCK,
)
"""Reasons for which others may wait, or which hold a task up, although it is on its way."""

_NEXT = {
    ReasonCode.SUBMITTED: "the master-agent takes it within moments; `grass status` says whether it runs",
    ReasonCode.JOB_LIMIT: "starts when a running job ends",
    ReasonCode.NO_NODES: "starts when a node is READY; see `grass node list`",
    ReasonCode.TOO_LARGE: "never starts as it is: ask for less, or add a larger node",
    ReasonCode.NO_FREE_RESOURCES: "starts when tasks that run now end and leave room",
    ReasonCode.DEPENDS_ON: "starts when the component it depends on is that far",
    ReasonCode.BACKOFF: "starts again by itself when its wait is over",
    ReasonCode.PARALLELISM: "starts when another task of this component ends",
    ReasonCode.AFTER: "starts when that job is that far; see `grass job show` of it",
    ReasonCode.QUOTA: "starts when other tasks of this user end; an administrator can raise the quota",
    ReasonCode.CONSTRAINTS: "starts when a node joins that is what it asks for; `grass node list` shows what there is",
    ReasonCode.GANG: "starts when there is room for all of its tasks at once",
    ReasonCode.BEHIND: "starts after the job that is served first, or before it with a `timeout` that is short enough",
    ReasonCode.SET_ASIDE: "tried again by itself when something changes; report the error in the master-agent's log",
    ReasonCode.PREEMPTING: "starts when those have ended",
    ReasonCode.PREEMPTED: "starts again by itself when there is room; it has kept its place in line",
    ReasonCode.DRAINED: "starts again by itself on another node",
    ReasonCode.IMAGE: "starts when its image is there",
    ReasonCode.DISK: "starts when its disk has room again; `grass node drain NODE --deadline 0s` places it elsewhere",
    ReasonCode.SHARE: "starts when the share is back; `grass node drain NODE --deadline 0s` places it elsewhere",
    ReasonCode.RUNTIME: "starts when what runs tasks on its node answers again; "
    "`grass node drain NODE --deadline 0s` places it elsewhere",
    ReasonCode.STUCK: "ends when its process does; its node takes no other tasks until then",
    ReasonCode.NOT_READY: "what waits for it starts when its readiness check passes; see its log",
}


def why_view(record: JobRecord, job: Job, tasks: Iterable[tuple[TaskView, int]]) -> WhyView:
    """``tasks``: each with how many there are of it; a wide array has thousands that never got a record."""
    first: dict[tuple[str, str, str], TaskView] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for task, count in tasks:
        reason = task.reason
        if task.state in _SILENT and not (reason and reason.code in _LATE):
            continue
        key = (task.component, task.state.value, f"{reason.code.value} {reason.message}" if reason else "")
        first.setdefault(key, task)
        counts[key] += count
    order = list(job.components)
    found = [
        WhyGroup(task.component, task.state, counts[key], task.reason, _next(task.state, task.reason))
        for key, task in first.items()
    ]
    found.sort(key=lambda group: (order.index(group.component), group.state.value))
    return WhyView(record.id, record.name, record.state, record.reason, tuple(found))


def _next(state: TaskState, reason: Reason | None) -> str | None:
    if reason is None:
        return None
    waits = state in (TaskState.PENDING, TaskState.LOST)
    return _NEXT.get(reason.code) if waits or reason.code in _LATE else None
