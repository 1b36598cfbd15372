"""Which components wait for resources, and what they lack. Pure. Used by ``reading`` and ``rules``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from grass.model.job import Component, Job
from grass.model.lifecycle import TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.wire.job_record import JobRecord
from grass.wire.node_record import NodeRecord

_WAITS = frozenset(
    {
        *(ReasonCode.SUBMITTED, ReasonCode.NO_FREE_RESOURCES, ReasonCode.GANG, ReasonCode.BEHIND),
        *(ReasonCode.PREEMPTING, ReasonCode.PREEMPTED, ReasonCode.DRAINED, ReasonCode.BELOW_MINIMUM),
    }
)
"""Reasons of tasks that would take resources that become free. Those of others change nothing for them: a quota, a
condition, a node that is too small."""
_LACKS = frozenset((ReasonCode.NO_FREE_RESOURCES, ReasonCode.GANG))
"""Reasons of tasks that start once enough is given back. For ``preempting``, that happens already."""


@dataclass(frozen=True)
class Waiter:
    """A component of a job that waits for resources.

    ``lacks``: resource → amount that is missing; empty: nothing that is given back would let it start. ``nodes``: where
    it may run; None: anywhere.
    """

    job_id: str
    job: str
    component: str
    priority: int
    user: str
    lacks: Mapping[str, int] = field(default_factory=dict)
    nodes: frozenset[str] | None = None


def waits(record: JobRecord) -> Iterator[str]:
    """Yield the components of a job that wait for resources."""
    if record.held is not None:
        return
    for name, part in record.components.items():
        reason = part.reason or record.reason
        if reason is None or reason.code not in _WAITS or "capacity" in reason.details:  # a gang that never fits
            continue
        if part.counts.get(TaskState.PENDING) and not part.joining:
            yield name


def waiter(record: JobRecord, name: str, job: Job | None, nodes: Iterable[NodeRecord]) -> Waiter:
    """``job``: its specification; None: what it lacks does not matter."""
    part, spec = record.components[name], None if job is None else job.components.get(name)
    if spec is None or part.reason is None or part.reason.code not in _LACKS:
        return Waiter(record.id, record.name, name, record.priority, record.user)
    lacks = _lacks(part.reason, spec.resources, part.counts[TaskState.PENDING])
    return Waiter(record.id, record.name, name, record.priority, record.user, lacks, _suits(spec, nodes))


def _lacks(reason: Reason, task: Resources, pending: int) -> Mapping[str, int]:
    """Return what is missing for all tasks that wait: of the resources that nodes are short of, if these are known.

    For the first task, what the nearest node is short of is enough."""
    details = reason.details
    count = max(1, pending - details.get("fitting", 0))
    short: dict[str, int] = {}
    for group in details.get("nodes", ()):
        if name := group.get("resource"):
            short[name] = min(group["short"], short.get(name, group["short"]))
    needs = {name: each for name, each in task.amounts().items() if each and (not short or name in short)}
    return {name: each * (count - 1) + min(each, short.get(name, each)) for name, each in needs.items()}


def _suits(spec: Component, nodes: Iterable[NodeRecord]) -> frozenset[str] | None:
    if not spec.where and not spec.avoid:
        return None
    return frozenset(node.name for node in nodes if node.name not in spec.avoid and _matches(spec, node))


def _matches(spec: Component, node: NodeRecord) -> bool:
    """The labels of the machines of a namespace are not known here: each may match."""
    return node.machines is not None or all(node.labels.get(label) in values for label, values in spec.where.items())


def shares_nodes(one: Collection[str] | None, other: Collection[str]) -> bool:
    """Return whether a component that may run on ``one`` gains from what is given back on ``other``."""
    return one is None or not other or not set(one).isdisjoint(other)
