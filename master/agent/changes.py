"""What one round of the master-agent changed, and the store operations that write it. No I/O.

The reactor changes the memory and records here what it touched. ``store_operations`` turns that into one atomic step
of the store. It writes each node's desired-state change together with the hashes that the change describes. Used by
``loop`` and ``step``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import structs

from grass.store.backend import Op
from grass.store.event_log import logged
from grass.store.job_index import moved
from grass.store.keys import (
    CHANGES_KEPT,
    CHECKS_KEPT,
    ENDED_AT_MOST,
    ENDS_KEPT,
    FEED_KEPT,
    PLANS_KEPT,
    REVOKED_KEPT,
    Keys,
)
from grass.wire.attempt_record import AttemptRecord
from grass.wire.checks import NodeCheck
from grass.wire.codec import encode
from grass.wire.event_record import EventRecord
from grass.wire.feed_entry import FeedEntry
from grass.wire.keys import TaskKey
from grass.wire.notification import Notification
from grass.wire.operation_record import OperationRecord
from grass.wire.plan_answer import PlanAnswer
from grass.wire.task_record import TaskRecord
from grass.wire.usage_record import UsageRecord
from master.agent.desired import NodeChange
from master.agent.node_run import NodeRun
from master.agent.records import job_record, node_record
from master.agent.state import Cluster, JobRun


@dataclass
class Changes:
    """Collected during one round, written by one commit."""

    tasks: dict[tuple[str, str, int], TaskRecord] = field(default_factory=dict)
    jobs: dict[str, JobRun] = field(default_factory=dict)
    operations: dict[tuple[str, str], OperationRecord | None] = field(default_factory=dict)
    """(job id, operation id) → its record. None: it is deleted."""
    nodes: dict[str, NodeRun] = field(default_factory=dict)
    schedules: set[str] = field(default_factory=set)
    removed_schedules: dict[str, str] = field(default_factory=dict)
    """Name → user."""
    desired: dict[str, NodeChange] = field(default_factory=dict)
    """Node → change of its desired state. Use ``of_node``."""
    events: list[EventRecord] = field(default_factory=list)
    submitted: dict[str, JobRun] = field(default_factory=dict)
    """Jobs that a schedule submitted. Their specifications are written too."""
    admitted: dict[str, JobRun] = field(default_factory=dict)
    """Jobs whose folder in the share must be made before the commit, because tasks may start right after it."""
    removed: dict[str, JobRun] = field(default_factory=dict)
    newest_deleted: dict[str, str | None] = field(default_factory=dict)
    """Job name → id of its newest run, which is removed while older ones are kept. None: no run is kept."""
    respecified: dict[str, JobRun] = field(default_factory=dict)
    """Jobs whose specification has changed."""
    notifications: dict[str, Notification] = field(default_factory=dict)
    """Id → a notification to deliver after the commit."""
    attempts: dict[str, dict[str, AttemptRecord | None]] = field(default_factory=dict)
    """Job id → field → an attempt that is followed by another one. None: it is removed."""
    addresses_changed: dict[str, JobRun] = field(default_factory=dict)
    """Jobs whose addresses have changed. Empty again at the end of the round."""
    left: list[str] = field(default_factory=list)
    """Nodes that were removed. Their records and keys are deleted."""
    accounts: dict[str, str | None] = field(default_factory=dict)
    """Node → digest of the password of its redis user, which is made before the commit. None: the user is removed
    after the commit."""
    usage: dict[str, None] = field(default_factory=dict)
    """Users whose usage record must be written."""
    kept_files: bool = False
    """Whether what users keep in the share must be written."""
    plans: dict[str, PlanAnswer] = field(default_factory=dict)
    """Question id → answer to ``grass job plan`` (``preview``)."""
    logs_dropped: list[str] = field(default_factory=list)
    """Ended jobs whose logs are removed after the commit, before their records."""
    names_free: list[str] = field(default_factory=list)
    """Job names that may be used again."""
    wall: float = 0.0
    """Wall-clock seconds of the round, by which certificates are made, too."""
    boot: str = ""
    """Boot id that the in-memory timestamps belong to."""
    checks: list[tuple[str, NodeCheck]] = field(default_factory=list)
    """Node → a check that ended."""
    plan: bool = False
    """Whether to plan in this round: something happened after which a waiting task may fit."""

    def of_node(self, node: str) -> NodeChange:
        return self.desired.setdefault(node, NodeChange())

    @property
    def names_taken(self) -> list[str]:
        """Names of submitted jobs, which no active job may have when the step is committed (``AgentStore.commit``)."""
        return [run.name for run in self.submitted.values() if run.name not in self.names_free]

    def committed(self) -> None:
        """Reduce ended jobs to a summary in memory, now that the store has their full records."""
        for run in self.jobs.values():
            run.listed = run.state
            if run.state.ended and not run.summarised:
                run.summarise()

    def __bool__(self) -> bool:
        return bool(
            self.tasks
            or self.jobs
            or self.operations
            or self.nodes
            or self.schedules
            or self.removed_schedules
            or self.desired
            or self.events
            or self.removed
            or self.left
            or self.usage
            or self.kept_files
            or self.logs_dropped
        )


def store_operations(changes: Changes, cluster: Cluster, keys: Keys) -> list[Op]:
    """Return the store operations that write the changes, for one atomic step."""
    ops: list[Op] = []
    _write_jobs(changes, cluster, keys, ops)
    _write_tasks(changes, keys, ops)
    _write_operations(changes, keys, ops)
    for name, change in changes.desired.items():
        if name in cluster.nodes and change:
            _write_desired(change, cluster.nodes[name], keys, ops)
    for name, node in changes.nodes.items():
        if name in cluster.nodes:
            ops.append(("HSET", keys.nodes, name, encode(node_record(node))))
    ops += [
        ("XADD", keys.checks(name), CHECKS_KEPT, "body", encode(check))
        for name, check in changes.checks
        if name in cluster.nodes
    ]
    for name in changes.left:
        ops += [("HDEL", keys.nodes, name), ("HDEL", keys.cursor, keys.reports(name))]
        ops += [("DEL", key) for key in keys.of_node(name)]
        ops.append(("XADD", keys.revoked, REVOKED_KEPT, "node", name, "at", f"{changes.wall:.3f}"))
    _write_usage(changes, cluster, keys, ops)
    for name in changes.schedules:
        schedule = cluster.schedules.get(name)
        if schedule:
            ops.append(("HSET", keys.schedules, name, encode(schedule)))
    ops += [("HDEL", keys.schedules, name) for name in changes.removed_schedules if name not in cluster.schedules]
    for question, plan in changes.plans.items():
        ops.append(("XADD", keys.plans, PLANS_KEPT, "question", question, "body", encode(plan)))
    ops += [("HSET", keys.notifications, each.id, encode(each)) for each in changes.notifications.values()]
    ops += [logged(keys, event) for event in changes.events]
    entry = _feed_entry(changes)
    if entry != FeedEntry():
        ops.append(("XADD", keys.feed, FEED_KEPT, "body", encode(entry)))
    return ops


def _feed_entry(changes: Changes) -> FeedEntry:
    """Name what the step changes, for readers of the change feed."""
    tasks: dict[str, list[str]] = {}
    for job_id, component, index in changes.tasks:
        tasks.setdefault(job_id, []).append(f"{component}.{index}")
    return FeedEntry(
        tuple(changes.jobs),
        {job_id: run.user for job_id, run in changes.removed.items()},
        {job_id: tuple(names) for job_id, names in tasks.items()},
        (*changes.nodes, *changes.left),
        tuple(changes.schedules),
        changes.removed_schedules,
    )


def _write_usage(changes: Changes, cluster: Cluster, keys: Keys, ops: list[Op]) -> None:
    for user in changes.usage:
        value = cluster.usage.get(user)
        if value is None:
            ops.append(("HDEL", keys.usage, user))
        else:
            ops.append(("HSET", keys.usage, user, encode(UsageRecord(value, cluster.usage_at, changes.boot))))
    if changes.kept_files:
        ops.append(("DEL", keys.kept_files))
        ops += [("HSET", keys.kept_files, user, encode(kept)) for user, kept in cluster.kept_files.items()]


def _write_jobs(changes: Changes, cluster: Cluster, keys: Keys, ops: list[Op]) -> None:
    for name in changes.names_free:
        ops.append(("HDEL", keys.live, name))
    for job_id, run in changes.submitted.items():
        ops.append(("HSET", keys.specs, job_id, encode(run.job)))
        ops.append(("HSET", keys.names, run.name, job_id))
        ops.append(("HSET", keys.live, run.name, job_id))
    if changes.admitted:
        ops.append(("HDEL", keys.deleted, *{run.name for run in changes.admitted.values()}))
    for name, newest in changes.newest_deleted.items():
        ops.append(("HDEL", keys.deleted, name) if newest is None else ("HSET", keys.deleted, name, newest))
    for job_id, run in changes.respecified.items():
        ops.append(("HSET", keys.specs, job_id, encode(run.job)))
    for job_id, run in changes.jobs.items():
        if job_id not in changes.removed and not run.summarised:
            record = encode(job_record(run))
            ops.append(("HSET", keys.jobs, job_id, record))
            ops += moved(keys, run.user, run.submitted, job_id, run.listed, run.state)
            if run.state.ended and len(record) <= ENDED_AT_MOST:
                ops.append(("XADD", keys.ends, ENDS_KEPT, "id", job_id, "record", record))
    for job_id, run in changes.removed.items():
        ops += [("HDEL", keys.jobs, job_id), ("HDEL", keys.specs, job_id), ("DEL", keys.tasks(job_id))]
        ops += [
            ("HDEL", keys.job_files, job_id),
            ("DEL", keys.operations(job_id)),
            ("DEL", keys.attempts(job_id)),
            ("DEL", keys.job_history(job_id)),
            ("HDEL", keys.history_jobs, job_id),
        ]
        ops += moved(keys, run.user, run.submitted, job_id, run.listed, None)
        # the API may have given the name to a newer run already, which no round knows yet
        ops.append(("HSWAP", keys.names, run.name, job_id, cluster.latest.get(run.name, "")))


def _write_tasks(changes: Changes, keys: Keys, ops: list[Op]) -> None:
    records: dict[str, list[str]] = {}
    for (job_id, component, index), task in changes.tasks.items():
        if job_id not in changes.removed:
            records.setdefault(job_id, []).extend((str(TaskKey(component, index)), encode(task)))
    for job_id, fields in records.items():
        ops.append(("HSET", keys.tasks(job_id), *fields))
    for job_id, attempts in changes.attempts.items():
        if job_id not in changes.removed:
            kept = {field: encode(attempt) for field, attempt in attempts.items() if attempt is not None}
            expired = [field for field, attempt in attempts.items() if attempt is None]
            ops.append(("HSET", keys.attempts(job_id), *(text for pair in kept.items() for text in pair)))
            ops += [("HDEL", keys.attempts(job_id), *expired)] if expired else []


def _write_operations(changes: Changes, keys: Keys, ops: list[Op]) -> None:
    for (job_id, name), operation in changes.operations.items():
        if job_id not in changes.removed:
            key = keys.operations(job_id)
            ops.append(("HDEL", key, name) if operation is None else ("HSET", key, name, encode(operation)))


def _write_desired(change: NodeChange, node: NodeRun, keys: Keys, ops: list[Op]) -> None:
    """Write the node's hashes, and the numbered change that describes them."""
    wire = change.wire()
    tables: list[tuple[str, Mapping[str, object]]] = [
        (keys.desired(node.name), wire.set),
        (keys.launch(node.name), wire.launch),
        (keys.membership(node.name), wire.membership),
    ]
    for key, table in tables:
        if table:
            ops.append(("HSET", key, *(text for field, each in table.items() for text in (field, encode(each)))))
    if wire.addresses:
        ops.append(("HSET", keys.addresses(node.name), *(t for pair in wire.addresses.items() for t in pair)))
    if wire.remove:
        ops.append(("HDEL", keys.desired(node.name), *wire.remove))
    if wire.drop:
        ops.append(("HDEL", keys.launch(node.name), *wire.drop))
        # a job that was queued again may be back in this round
        without = [key for key in wire.drop if key not in wire.membership]
        gone = {key.job_id for key in change.drop} - wire.addresses.keys()
        ops += [("HDEL", keys.membership(node.name), *without)] if without else []
        ops += [("HDEL", keys.addresses(node.name), *gone)] if gone else []
    node.change += 1
    sent = structs.replace(wire, membership={}, memberships=tuple(wire.membership))
    ops.append(("XADD", keys.changes(node.name), CHANGES_KEPT, "number", str(node.change), "body", encode(sent)))
