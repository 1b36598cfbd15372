"""The answer to `grass job why`: the reasons of a job's tasks, grouped, each with what would change it. Pure.

Used by ``jobs``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from grass.model.job import Job
from grass.model.lifecycle import NodeState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.task_values import alike, in_common
from grass.wire.finding import Finding
from grass.wire.job_record import JobRecord
from grass.wire.job_views import TaskView, WhyGroup, WhyView
from grass.wire.node_record import NodeRecord

_PROGRESS = (TaskState.ASSIGNED, TaskState.RUNNING, TaskState.SUCCEEDED)
"""States that are progress, and need no explanation."""

_DELAYS = (
    *(ReasonCode.NOT_READY, ReasonCode.IMAGE, ReasonCode.DISK, ReasonCode.SHARE, ReasonCode.RUNTIME),
    *(ReasonCode.STUCK, ReasonCode.NODE_LOST),
    *(ReasonCode.UNSCHEDULABLE, ReasonCode.NAMESPACE_QUOTA, ReasonCode.NAMESPACE_QUEUE, ReasonCode.NOT_STARTED),
)
"""Reasons that delay a task, or tasks that wait for it, although its state is progress."""

_NEXT = {
    ReasonCode.SUBMITTED: "starts shortly; check with `grass status` that the master-agent runs",
    ReasonCode.JOB_LIMIT: "starts when a running job ends",
    ReasonCode.NO_NODES: "starts when a node is READY; see `grass node list`",
    ReasonCode.TOO_LARGE: "cannot start: request less, or add a larger node",
    ReasonCode.NO_FREE_RESOURCES: "starts when enough resources are free, for example because tasks end",
    ReasonCode.DEPENDS_ON: "starts when the component it depends on reaches that state",
    ReasonCode.BACKOFF: "restarts by itself after the wait",
    ReasonCode.PARALLELISM: "starts when another task of this component ends",
    ReasonCode.AFTER: "starts once that job, or that task of it, has ended as required; see `grass job show JOB`",
    ReasonCode.QUOTA: "starts when other tasks of this user end, or files of theirs are removed from the share; "
    "an administrator can raise the quota",
    ReasonCode.CONSTRAINTS: "starts when a node joins that matches its constraints; see `grass node list`",
    ReasonCode.GANG: "starts when all of its tasks fit at once",
    ReasonCode.BEHIND: "starts after the job that is served first; a short enough `timeout` lets it start before",
    ReasonCode.SET_ASIDE: "tried again by itself when something changes; report the error in the master-agent's log",
    ReasonCode.PREEMPTING: "starts when those tasks have ended",
    ReasonCode.PREEMPTED: "restarts by itself when resources are free; it keeps its queue position",
    ReasonCode.DRAINED: "restarts by itself on another node",
    ReasonCode.IMAGE: "starts when its image has been fetched",
    ReasonCode.DISK: "starts when its node has free disk; `grass node drain NODE --deadline 0s` moves it elsewhere",
    ReasonCode.SHARE: "starts when the share works again; `grass node drain NODE --deadline 0s` moves it elsewhere",
    ReasonCode.RUNTIME: "starts when the runtime of its node answers again; "
    "`grass node drain NODE --deadline 0s` moves it elsewhere",
    ReasonCode.STUCK: "ends when its process ends; its node gets no new tasks until then",
    ReasonCode.UNSCHEDULABLE: "starts when kube-scheduler finds a machine; placed anew by itself if that takes minutes",
    ReasonCode.NAMESPACE_QUOTA: "starts when other pods of the namespace end; an administrator of Kubernetes can raise "
    "that quota",
    ReasonCode.NAMESPACE_QUEUE: "starts when the queue of Kubernetes lets its pod go; that may take any time",
    ReasonCode.GANG_INCOMPLETE: "starts together with the other tasks of its gang, later or on another node",
    ReasonCode.NOT_STARTED: "starts when Kubernetes runs its container; placed anew by itself if that takes minutes",
    ReasonCode.NOT_READY: "components that wait for it start when its readiness check passes; see its log",
}


_SILENT = "its state is known again once the node is heard; see `grass node list`"
_ABOVE_QUOTA = "cannot start: request less, or ask an administrator to raise the quota"


def on_silent_nodes(
    tasks: Iterable[tuple[TaskView, int]], nodes: Iterable[NodeRecord]
) -> Iterator[tuple[TaskView, int]]:
    """Yield the tasks; those that may still run on a node that is silent get its reason."""
    silent = {node.name: node.reason for node in nodes if node.state is NodeState.SILENT and node.reason is not None}
    for task, count in tasks:
        reason = silent.get(task.node or "") if task.state in (TaskState.ASSIGNED, TaskState.RUNNING) else None
        if reason is not None:
            reason = replace(reason, message=f"node {task.node}: {reason.message}")
        yield (task if reason is None else structs.replace(task, reason=reason)), count


def why_view(
    record: JobRecord, job: Job, tasks: Iterable[tuple[TaskView, int]], findings: tuple[Finding, ...] = ()
) -> WhyView:
    """Group the tasks by component, state and reason. ``tasks``: each with the number of tasks like it."""
    groups: dict[tuple[str, TaskState, object], tuple[TaskView, list[int]]] = {}
    counts: Counter[tuple[str, TaskState, object]] = Counter()
    for task, count in tasks:
        reason, failed = task.reason, task.state is TaskState.FAILED
        if task.state in _PROGRESS and not (reason and reason.code in _DELAYS):
            continue
        skipped = reason is not None and reason.code is ReasonCode.AFTER_FAILED
        key = (task.component, task.state, alike(reason) if failed or skipped else reason)
        first, indexes = groups.setdefault(key, (task, []))
        indexes.append(task.index)
        if task.index < first.index:
            groups[key] = (task, indexes)
        counts[key] += count
    order = list(job.components)
    found = [_group(record, job, task, counts[key], indexes) for key, (task, indexes) in groups.items()]
    found.sort(key=lambda group: (order.index(group.component), group.state.value))
    placed = {name: part.placed for name, part in record.components.items() if part.placed and part.on_nodes}
    return WhyView(record.id, record.name, record.state, record.reason, tuple(found), findings, placed)


def _group(record: JobRecord, job: Job, task: TaskView, count: int, indexes: Sequence[int]) -> WhyGroup:
    name, of = task.component, record.components[task.component].replicas
    group = WhyGroup(name, task.state, count, task.reason, _next(task.state, task.reason), of)
    if task.state is not TaskState.FAILED:
        return group
    return structs.replace(group, first=task.task, common=in_common(job.components[name], indexes))


def _next(state: TaskState, reason: Reason | None) -> str | None:
    if reason is None:
        return None
    if reason.code is ReasonCode.QUOTA and reason.details.get("needs", 0) > reason.details.get("quota", 0):
        return _ABOVE_QUOTA
    if reason.code is ReasonCode.NODE_LOST:
        return _SILENT if state in _PROGRESS else None
    waits = state in (TaskState.PENDING, TaskState.LOST)
    return _NEXT.get(reason.code) if waits or reason.code in _DELAYS else None
