"""What one round of the master-agent changed, and the store's operations that write it.

The reactor changes the memory and notes here what it touched; ``operations`` turns that into one atomic step, with the
order for each node beside the hashes that the order describes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grass.store.backend import Op
from grass.store.keys import ENDED_AT_MOST, ENDS_KEPT, EVENTS_KEPT, ORDERS_KEPT, PLANS_KEPT, Keys
from grass.store.records import pack
from master.agent.state import Cluster, JobRun, NodeRun, TaskRun


@dataclass
class Order:
    """The change of one node's desired state."""

    launch: dict[str, dict[str, Any]] = field(default_factory=dict)
    set: dict[str, dict[str, Any]] = field(default_factory=dict)
    remove: dict[str, None] = field(default_factory=dict)
    drop: dict[str, None] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, entry: dict[str, Any]) -> None:
        self.remove.pop(key, None)
        self.set[key] = entry

    def take(self, key: str) -> None:
        self.set.pop(key, None)
        self.remove[key] = None

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {}
        if self.launch:
            wire["launch"] = self.launch
        if self.set:
            wire["set"] = self.set
        if self.remove:
            wire["remove"] = list(self.remove)
        if self.drop:
            wire["drop"] = list(self.drop)
        if self.addresses:
            wire["addresses"] = self.addresses
        return wire


@dataclass
class Changes:
    tasks: dict[tuple[str, str, int], TaskRun] = field(default_factory=dict)
    jobs: dict[str, JobRun] = field(default_factory=dict)
    nodes: dict[str, NodeRun] = field(default_factory=dict)
    schedules: set[str] = field(default_factory=set)
    orders: dict[str, Order] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    submitted: dict[str, JobRun] = field(default_factory=dict)
    """Jobs that a schedule made: their specification is written with them."""
    admitted: list[str] = field(default_factory=list)
    """Jobs whose folder in the share is to be made, before the commit: their tasks may start right after it."""
    removed: dict[str, JobRun] = field(default_factory=dict)
    moved: dict[str, JobRun] = field(default_factory=dict)
    """Jobs whose addresses have changed; empty again when the round is over."""
    left: list[str] = field(default_factory=list)
    """Nodes that were removed: their records and keys go."""
    accounts: dict[str, str | None] = field(default_factory=dict)
    """Node → digest of the password of the redis user to make, before the commit; None: to remove, after it."""
    usage: dict[str, None] = field(default_factory=dict)
    """Users whose use of the cluster is to be written."""
    plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Answers to questions about jobs that are not there (``preview``)."""
    names_free: list[str] = field(default_factory=list)
    boot: str = ""
    """Of which the moments in the memory are."""
    plan: bool = False
    """Something happened after which a waiting task may find a place."""

    def order(self, node: str) -> Order:
        return self.orders.setdefault(node, Order())

    def event(self, kind: str, message: str, wall: float, user: str = "", **fields: str) -> None:
        self.events.append({"time": wall, "kind": kind, "user": user, "message": message, **fields})

    def __bool__(self) -> bool:
        return bool(
            self.tasks
            or self.jobs
            or self.nodes
            or self.schedules
            or self.orders
            or self.events
            or self.removed
            or self.left
            or self.usage
        )


def operations(changes: Changes, cluster: Cluster, keys: Keys) -> list[Op]:
    ops: list[Op] = []
    _job_operations(changes, cluster, keys, ops)
    _task_operations(changes, keys, ops)
    for name, order in changes.orders.items():
        if name in cluster.nodes:
            _order_operations(order, cluster.nodes[name], keys, ops)
    for name, node in changes.nodes.items():
        if name in cluster.nodes:
            ops.append(("HSET", keys.nodes, name, pack(node_view(node))))
    for name in changes.left:
        ops += [("HDEL", keys.nodes, name), ("HDEL", keys.cursor, keys.reports(name))]
        ops += [("DEL", key) for key in keys.of_node(name)]
    for user in changes.usage:
        value = cluster.usage.get(user)
        kept = ("HSET", keys.usage, user, pack([value, cluster.usage_at, changes.boot]))
        ops.append(("HDEL", keys.usage, user) if value is None else kept)
    for name in changes.schedules:
        schedule = cluster.schedules.get(name)
        ops.append(("HSET", keys.schedules, name, pack(schedule)) if schedule else ("HDEL", keys.schedules, name))
    for question, plan in changes.plans.items():
        ops.append(("XADD", keys.plans, PLANS_KEPT, "question", question, "body", pack(plan)))
    for event in changes.events:
        ops.append(("XADD", keys.events, EVENTS_KEPT, "event", pack(event)))
    return ops


def _job_operations(changes: Changes, cluster: Cluster, keys: Keys, ops: list[Op]) -> None:
    for name in changes.names_free:
        ops.append(("HDEL", keys.live, name))
    for job_id, run in changes.submitted.items():
        ops.append(("HSET", keys.specs, job_id, pack(run.job.to_wire())))
        ops.append(("HSET", keys.names, run.job.name, job_id))
        ops.append(("HSET", keys.live, run.job.name, job_id))
    for job_id, run in changes.jobs.items():
        if job_id not in changes.removed:
            record = pack(job_view(run))
            ops.append(("HSET", keys.jobs, job_id, record))
            if run.state.ended and len(record) <= ENDED_AT_MOST:
                ops.append(("XADD", keys.ends, ENDS_KEPT, "id", job_id, "record", record))
    for job_id, run in changes.removed.items():
        ops += [("HDEL", keys.jobs, job_id), ("HDEL", keys.specs, job_id), ("DEL", keys.tasks(job_id))]
        # the API may have given the name to another run by now, which no round knows yet
        ops.append(("HSWAP", keys.names, run.job.name, job_id, cluster.latest.get(run.job.name, "")))


def _task_operations(changes: Changes, keys: Keys, ops: list[Op]) -> None:
    records: dict[str, list[str]] = {}
    for (job_id, component, index), task in changes.tasks.items():
        if job_id not in changes.removed:
            records.setdefault(job_id, []).extend((f"{component}.{index}", pack(task.record())))
    for job_id, fields in records.items():
        ops.append(("HSET", keys.tasks(job_id), *fields))


def _order_operations(order: Order, node: NodeRun, keys: Keys, ops: list[Op]) -> None:
    wire = order.to_wire()
    if not wire:
        return
    for key, table in ((keys.desired(node.name), order.set), (keys.launch(node.name), order.launch)):
        if table:
            ops.append(("HSET", key, *(text for field, value in table.items() for text in (field, pack(value)))))
    if order.addresses:
        ops.append(("HSET", keys.addresses(node.name), *(t for pair in order.addresses.items() for t in pair)))
    if order.remove:
        ops.append(("HDEL", keys.desired(node.name), *order.remove))
    if order.drop:
        ops.append(("HDEL", keys.launch(node.name), *order.drop))
        ops.append(("HDEL", keys.addresses(node.name), *{key.rpartition("/")[0] for key in order.drop}))
    node.order += 1
    ops.append(("XADD", keys.orders(node.name), ORDERS_KEPT, "number", str(node.order), "body", pack(wire)))


def job_view(run: JobRun) -> dict[str, Any]:
    """The record of a job: the fields that never change, and those that the memory holds."""
    totals: dict[str, int] = {}
    components: dict[str, Any] = {}
    for name, component in run.components.items():
        counts = {state.value: count for state, count in component.counts.items() if count}
        for state, count in counts.items():
            totals[state] = totals.get(state, 0) + count
        reason = component.reason.to_wire() if component.reason else None
        components[name] = {"replicas": component.spec.replicas, "counts": counts, "reason": reason}
    outcome = None
    if run.outcome:
        state, reason_, code = run.outcome
        outcome = [state.value, reason_.to_wire() if reason_ else None, code]
    run.view.update(
        state=run.state.value,
        reason=run.reason.to_wire() if run.reason else None,
        counts=totals,
        components=components,
        outcome=outcome,
        deadline=run.deadline,
    )
    if run.met:
        run.view["met"] = sorted(run.met)
    return run.view


def node_view(node: NodeRun) -> dict[str, Any]:
    return {
        "name": node.name,
        "state": node.state.value,
        "reason": node.reason.to_wire() if node.reason else None,
        "address": node.address,
        "resources": node.total.to_wire(),
        "free": node.free.to_wire(),
        "tasks": node.live,
        "usage": node.usage,
        "version": node.info.get("version", ""),
        "api_port": node.info.get("api_port", 0),
        "gpus": node.info.get("gpus", []),
        "boot": node.boot,
        "seen": node.info.get("seen_wall"),
        "labels": node.labels,
        "path": list(node.path),
        "runtimes": list(node.runtimes),
        "digest": node.digest,
        "cordoned": node.cordoned,
        "unfit": node.unfit.to_wire() if node.unfit else None,
        "conditions": [each.to_wire() for each in node.conditions],
        "forgiven": {str(number): count for number, count in node.forgiven.items()},
        "quarantine": {str(number): device.ill for number, device in sorted(node.devices.items()) if device.ill},
        "drain": None if node.drain is None else [node.drain.user, node.drain.deadline, node.drain.remove],
    }
