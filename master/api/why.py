"""The answer to "why does it not run": the planner's own reasons, grouped, each with what would change it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grass.model.job import Job
from grass.model.lifecycle import TaskState
from grass.model.reasons import ReasonCode

View = dict[str, Any]

_SILENT = (TaskState.ASSIGNED, TaskState.STARTING, TaskState.RUNNING, TaskState.SUCCEEDED)
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


def why_view(record: View, job: Job, tasks: Iterable[tuple[View, int]]) -> View:
    """``tasks``: each with how many there are of it; a wide array has thousands that never got a record."""
    groups: dict[tuple[str, str, str], View] = {}
    for task, count in tasks:
        reason = task["reason"]
        if TaskState(task["state"]) in _SILENT and not (reason and reason["code"] in _LATE):
            continue
        key = (task["component"], task["state"], _kind(reason))
        group = groups.setdefault(key, _group(task["component"], task["state"], reason))
        group["count"] += count
    order = list(job.components)
    found = sorted(groups.values(), key=lambda group: (order.index(group["component"]), group["state"]))
    return {
        "id": record["id"],
        "name": record["name"],
        "state": record["state"],
        "reason": record["reason"],
        "groups": found,
    }


def _group(component: str, state: str, reason: View | None) -> View:
    return {"component": component, "state": state, "count": 0, "reason": reason, "next": _next(state, reason)}


def _kind(reason: View | None) -> str:
    return f"{reason['code']} {reason['message']}" if reason else ""


def _next(state: str, reason: View | None) -> str | None:
    waits = state in (TaskState.PENDING.value, TaskState.LOST.value)
    late = reason is not None and reason["code"] in _LATE
    return _NEXT.get(ReasonCode(reason["code"])) if reason and (waits or late) else None
