"""Which components grow and which give machines back, and why. Pure: one function over all of them, ``decide``.

Nothing is remembered between two calls except for how long machines have been idle. All else is read from the jobs'
operations and reports, so that a monitor that was killed decides the same. Used by ``master.monitor.autoscaler``,
``master.api.autoscale`` and ``tests/bench/autoscale.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from grass.model.amounts import show_span
from grass.model.autoscale import Autoscale
from grass.model.resources import Resources
from grass.wire.operation_record import OperationKind, OperationRecord, OperationState, Outcome, ScaleRule
from master.autoscale import rates
from master.autoscale.waiting import Waiter, shares_nodes

LONGEST_IDLE = 300.0
"""Seconds that machines must have been idle before a component grows: half of its cooldown, but no more than this."""
_MOST_DOUBLED = 6
"""After each growth that does not succeed, the next one waits twice as long, so often at most."""


class Key(NamedTuple):
    """A component of a job."""

    job_id: str
    component: str


class Idle(NamedTuple):
    """What the planner says of one more unit of a component: whether it fits now, and if not, why.

    ``since``: the time since when it has always fitted; None: that is not known.
    """

    fits: bool
    why: str = ""
    since: float | None = None


@dataclass(frozen=True)
class Subject:
    """A component that may be scaled, as it is now. Times are seconds since the epoch.

    ``runs``: all of its tasks run. ``since``: when it began. ``operations``: those of its job, oldest first.
    ``reports``: of its tasks. ``nodes``: where its tasks are; empty: not known.
    """

    job_id: str
    job: str
    component: str
    policy: Autoscale
    size: int
    least: int
    most: int
    unit: int
    resources: Resources
    since: float
    runs: bool = True
    priority: int = 0
    filed: int = 0
    """Operations that were filed on its job so far."""
    operations: Sequence[OperationRecord] = ()
    reports: rates.Reports = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()

    @property
    def key(self) -> Key:
        return Key(self.job_id, self.component)


class Act(str, Enum):
    """What to do."""

    KEEP = "keep"
    ASK = "ask"  # it would grow: ask the planner whether one more unit fits
    SCALE = "scale"
    CANCEL = "cancel"  # a growth that is not complete


@dataclass(frozen=True)
class Decision:
    """What to do with a component. ``size``: the new one; for ASK and KEEP, the present one.

    ``id``: of the operation to file or to cancel. It follows from what was decided: filed twice, it is one operation.
    """

    subject: Subject
    act: Act
    why: str
    size: int
    rule: ScaleRule | None = None
    id: str = ""


def decide(
    subjects: Sequence[Subject], waiters: Sequence[Waiter], idle: Mapping[Key, Idle], now: float
) -> list[Decision]:
    """Return a decision for each component, in the order of ``subjects``. At most one grows, and none beside another.

    ``waiters``: all components of the cluster that wait for resources. ``idle``: what the planner said, of those that
    were asked about.
    """
    released = _releases(subjects, waiters)
    decisions = [_decide(each, released.get(each.key), waiters, idle.get(each.key), now) for each in subjects]
    reserves = any(_reserves(each) for each in subjects)
    growing = [each for each in decisions if each.rule is ScaleRule.GROW and each.act is Act.SCALE]
    first = None if reserves else min(growing, key=_turn, default=None)
    return [_after(each) if each in growing and each is not first else each for each in decisions]


class _Release(NamedTuple):
    """Machines that a component gives back. ``size``: what is left of it."""

    size: int
    waiter: Waiter


def _releases(subjects: Sequence[Subject], waiters: Sequence[Waiter]) -> dict[Key, _Release]:
    """Return which components give machines back: of the lowest priority first, and only as much as is missing."""
    found: dict[Key, _Release] = {}
    givers = sorted(subjects, key=lambda each: (each.priority, each.least - each.size))
    for waiter in sorted(waiters, key=lambda each: -each.priority):
        lacks = dict(waiter.lacks)
        for subject in givers:
            if subject.priority >= waiter.priority or not shares_nodes(waiter.nodes, subject.nodes):
                continue
            size = found[subject.key].size if subject.key in found else subject.size
            lacks = _less(lacks, subject.resources, _leaving(subject))
            wanted = _tasks(lacks, subject.resources)
            units = min(-(-wanted // subject.unit), (size - subject.least) // subject.unit)
            if units > 0 and (_unfinished(subject) is None or _grows(subject) is not None):
                found[subject.key] = _Release(size - units * subject.unit, waiter)
                lacks = _less(lacks, subject.resources, units * subject.unit)
    return found


def _tasks(lacks: Mapping[str, int], each: Resources) -> int:
    """Return how many tasks must leave until nothing is missing that they have."""
    had = {name: amount for name, amount in each.amounts().items() if amount}
    return max((-(-amount // had[name]) for name, amount in lacks.items() if name in had and amount > 0), default=0)


def _less(lacks: Mapping[str, int], each: Resources, tasks: int) -> dict[str, int]:
    return {name: amount - tasks * each.amount(name) for name, amount in lacks.items()}


def _decide(
    subject: Subject, release: _Release | None, waiters: Sequence[Waiter], idle: Idle | None, now: float
) -> Decision:
    growth, busy = _grows(subject), _unfinished(subject)
    if growth is not None and release is not None and growth.cancellable:
        why = _waits(release.waiter)
        return Decision(subject, Act.CANCEL, why, subject.size, id=growth.id)
    if busy is not None:
        return _keep(subject, f"operation {busy.id} ({busy.kind.value}) is not complete")
    if release is not None and release.size < subject.size:
        why = _waits(release.waiter)
        return _scale(subject, ScaleRule.GIVE_BACK, release.size, why)
    if not subject.runs:
        return _keep(subject, "not all of its tasks run")
    return _judge(subject) or _grow(subject, waiters, idle, now)


def _judge(subject: Subject) -> Decision | None:
    """Return whether the last growth is undone, or must be measured first. None: it may grow further."""
    growth = _last(subject)
    if growth is None or growth.rule is not ScaleRule.GROW or not subject.policy.gain:
        return None
    few, many = growth.from_size or subject.size, growth.to_size or subject.size
    if growth.outcome is not Outcome.DONE or many != subject.size:
        return None
    slow = _before(subject, growth)
    if slow is None:
        return None
    ended = growth.ended or growth.filed
    fast = rates.after(subject.reports, ended, subject.policy.cooldown, _reporters(subject, slow, few, many, ended))
    if fast is None:
        return _keep(subject, f"measures what {many} tasks gain over {few}, which made {slow}")
    part = rates.gain(slow, fast, few, many)
    if part >= subject.policy.gain:
        return None
    return _scale(
        subject, ScaleRule.UNDO, few, f"{_measured(slow, fast, few, many)}: {round(100 * part)}% of a linear gain"
    )


def _reporters(subject: Subject, slow: rates.Rate, few: int, many: int, ended: float) -> int:
    """Return how many tasks must report after a growth. One that was alone may have reported for itself, or for all."""
    if few == 1:
        return sum(bool(points) and points[-1].at >= ended for points in subject.reports.values())
    return many if slow.tasks >= few else slow.tasks


def _measured(slow: rates.Rate, fast: rates.Rate, few: int, many: int) -> str:
    return f"{few} task{'s' * (few > 1)} made {slow}, {many} make {fast}"


def _before(subject: Subject, growth: OperationRecord) -> rates.Rate | None:
    """Return the rate before a growth."""
    since = max((each.ended or each.filed for each in _scalings(subject) if each.number < growth.number), default=0.0)
    return rates.before(subject.reports, max(since, subject.since), growth.filed, subject.policy.cooldown)


def _grow(subject: Subject, waiters: Sequence[Waiter], idle: Idle | None, now: float) -> Decision:
    target = subject.size + subject.unit
    if target > subject.most:
        return _keep(subject, f"has its largest size (`max` is {subject.most})")
    undone = [each for each in _scalings(subject) if each.rule is ScaleRule.UNDO and each.outcome is Outcome.DONE]
    bad = min((each for each in undone if (each.to_size or 0) < target), key=lambda each: each.number, default=None)
    if bad is not None:
        return _keep(subject, f"{bad.from_size} tasks gained too little before ({bad.reason})")
    wait, why = _cooldown(subject)
    if now < wait:
        return _keep(subject, f"grows in {show_span(wait - now)} at the earliest: {why}")
    if subject.reports and subject.policy.gain and rates.before(subject.reports, _changed(subject), now, 0.0) is None:
        return _keep(subject, "measures its present speed, before it grows")
    if waiters:
        return _keep(subject, _waits(waiters[0]))
    if idle is None:
        return Decision(subject, Act.ASK, f"asks the planner whether {subject.unit} more fit", subject.size)
    if not idle.fits:
        return _keep(subject, f"{subject.unit} more do not fit now: {idle.why}")
    long = min(LONGEST_IDLE, subject.policy.cooldown / 2)
    since = now if idle.since is None else idle.since
    if now - since < long:
        return _keep(subject, f"{subject.unit} more fit; grows once they have fitted for {show_span(long)}")
    return _scale(subject, ScaleRule.GROW, target, f"resources for {subject.unit} more have been idle")


def _cooldown(subject: Subject) -> tuple[float, str]:
    """Return when it may grow at the earliest, and why."""
    failed = 0
    for each in reversed(_scalings(subject)):
        if each.rule is not ScaleRule.GROW or each.outcome is Outcome.DONE:
            break
        failed += each.outcome is not Outcome.CANCELLED  # as for a job of higher priority
    cooldown = subject.policy.cooldown * 2 ** min(failed, _MOST_DOUBLED)
    why = f"its size stays for {show_span(cooldown)} after a change"
    if failed:
        why = f"the last {'growth' if failed == 1 else f'{failed} growths'} did not succeed"
    return _changed(subject) + cooldown, why


def _changed(subject: Subject) -> float:
    """Return when its size changed last, or was to change."""
    return max([subject.since, *(each.ended or each.filed for each in _scalings(subject))])


def _scalings(subject: Subject) -> list[OperationRecord]:
    """Return the scalings of the component, oldest first."""
    found = subject.operations
    return [each for each in found if each.kind is OperationKind.SCALE and each.component == subject.component]


def _last(subject: Subject) -> OperationRecord | None:
    """Return the last scaling that changed the size."""
    changed = [each for each in _scalings(subject) if each.outcome in (Outcome.DONE, Outcome.PARTIALLY_DONE)]
    return changed[-1] if changed else None


def _unfinished(subject: Subject) -> OperationRecord | None:
    """Return the first operation on the component, or on the whole job, that has not ended."""
    concerned: Iterator[OperationRecord] = (
        each for each in subject.operations if each.component in (None, subject.component) and each.unfinished
    )
    return next((each for each in concerned if not each.repairs), None)


def _grows(subject: Subject) -> OperationRecord | None:
    """Return its growth that is not complete."""
    found = _unfinished(subject)
    return found if found is not None and found.rule is ScaleRule.GROW else None


def _reserves(subject: Subject) -> bool:
    """Return whether it grows, and has not got its resources yet: what the planner says does not count them."""
    growth = _grows(subject)
    return growth is not None and growth.state in (OperationState.WAITING, OperationState.RESERVING)


def _leaving(subject: Subject) -> int:
    """Return how many of its tasks are leaving already."""
    found = _unfinished(subject)
    if found is None or found.kind is not OperationKind.SCALE or found.from_size is None or found.to_size is None:
        return 0
    return max(0, found.from_size - found.to_size)


def _turn(decision: Decision) -> tuple[int, float, float]:
    """Return the order in which components grow: by priority, then those that have grown least, then the oldest."""
    subject = decision.subject
    return -subject.priority, subject.size / subject.least, subject.since


def _after(decision: Decision) -> Decision:
    return _keep(decision.subject, "another component grows first")


def _waits(waiter: Waiter) -> str:
    """The owner of the component need not know which job it is."""
    return f"a job of priority {waiter.priority} waits for resources"


def _keep(subject: Subject, why: str) -> Decision:
    return Decision(subject, Act.KEEP, why, subject.size)


def _scale(subject: Subject, rule: ScaleRule, size: int, why: str) -> Decision:
    text = f"{subject.job_id}/{subject.component}/{subject.filed}/{rule.value}/{size}"
    name = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Decision(subject, Act.SCALE, why, size, rule, name)
