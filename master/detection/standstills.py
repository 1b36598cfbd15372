"""Which components stand still, from samples of usage, and what follows once their stacks were collected. Pure.

A group is a component whose tasks work together, or one task of those that work alone. It is watched while its members
stay the same attempts. After a window without progress its stacks are collected. After a second window they are
collected again, and the finding is confirmed. What may be an evaluation or a checkpoint gets more time. Used by the
monitor's ``hangs``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import structs

from grass.model.amounts import show_span
from grass.wire.finding import Cause, Finding, FindingState
from grass.wire.stacks import TaskStacks
from grass.wire.usage import OwnNotFinite, OwnPoint, TaskSample
from master.detection.cause import Verdict, judge
from master.detection.progress import Limits, Progress


class Attempt(NamedTuple):
    """A running attempt. ``task``: ``<component>.<index>``."""

    job_id: str
    component: str
    task: str
    number: int


class Group(NamedTuple):
    """What is watched. ``name``: a component, or a task that works alone. ``trains``: it has a framework, whose members
    wait for one another, so that even without reports it must not be idle for an hour."""

    job_id: str
    name: str
    trains: bool = False


class Evidence(NamedTuple):
    """What was collected of a group at one moment. ``sick``: node → what is wrong with a device of it. ``printed``:
    seconds since a member printed something; None: not known."""

    stacks: Sequence[TaskStacks]
    sick: Mapping[str, str] = {}
    printed: float | None = None


@dataclass
class _Watched:
    """A group with its present members. ``looked``: when its stacks were wanted last; ``idle``: windows without work,
    of a group that reports nothing."""

    progress: Progress
    attempts: dict[str, int] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    looked: float | None = None
    first: Verdict | None = None
    finding: Finding | None = None
    idle: int = 0
    rested: float = 0.0

    @property
    def generation(self) -> str:
        members = ",".join(f"{task}/{attempt}" for task, attempt in sorted(self.attempts.items()))
        return f"{len(self.attempts)}:{zlib.crc32(members.encode()):08x}"


class Standstills:
    """All groups. ``ended``: findings that hold no longer, for who calls ``take_ended``."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._groups: dict[Group, _Watched] = {}
        self._ended: list[Finding] = []

    def feed(
        self,
        at: float,
        tasks: Sequence[tuple[Attempt, TaskSample]],
        points: Sequence[tuple[Attempt, OwnPoint | OwnNotFinite]],
        group_of: Callable[[Attempt], Group | None],
    ) -> None:
        """Take a sample of one node. ``group_of``: None for a task that is not watched."""
        for key, sample in tasks:
            if (group := group_of(key)) is not None:
                self._member(group, key, at).progress.sample(key.task, sample)
        for key, point in points:
            group = group_of(key)
            watched = None if group is None else self._groups.get(group)
            if watched is not None and watched.attempts.get(key.task) == key.number:
                watched.progress.sign(key.task, point.step, at)
                self._goes_on(watched, at)

    def due(self, now: float) -> Iterator[Group]:
        """Yield the groups whose stacks are wanted now."""
        for group, watched in list(self._groups.items()):
            self._forget_gone(group, watched, now)
            if watched.attempts and self._is_due(group, watched, now):
                watched.looked = now
                yield group

    def members(self, group: Group) -> list[str]:
        """Return the keys of the attempts of a group."""
        watched = self._groups.get(group)
        found = watched.attempts if watched is not None else {}
        return [f"{group.job_id}/{task}/{attempt}" for task, attempt in sorted(found.items())]

    def all_members(self) -> set[str]:
        """Return the keys of the attempts of all groups."""
        return {key for group in self._groups for key in self.members(group)}

    def may_hold(self, finding: Finding) -> bool:
        """Return whether a finding of an earlier monitor may still hold: nothing was reported by the same members."""
        return any(
            group.job_id == finding.job_id and watched.generation == finding.generation and not watched.progress.signs
            for group, watched in self._groups.items()
        )

    def judged(self, group: Group, evidence: Evidence, now: float) -> Finding | None:
        """Take what was collected of a group. Return what is found; None: nothing is certain yet."""
        watched = self._groups.get(group)
        if watched is None or watched.looked is None:
            return None  # it went on meanwhile
        verdict = judge(evidence.stacks, evidence.sick)
        if self._may_work(group, watched, verdict, evidence, now):
            watched.first = None
            return None
        before, watched.first = watched.first, verdict
        if before is None:
            watched.finding = self._finding(group, watched, FindingState.SUSPECTED, verdict, now)
            return watched.finding
        if before.busy and verdict.busy and not set(before.busy) & set(verdict.busy):
            return None  # another member is behind each time: they work, slowly
        surer = max(verdict, before, key=lambda each: each.sure)
        watched.finding = self._finding(group, watched, FindingState.CONFIRMED, surer, now)
        return watched.finding

    def take_ended(self) -> list[Finding]:
        ended, self._ended = self._ended, []
        return ended

    def _member(self, group: Group, key: Attempt, at: float) -> _Watched:
        watched, task = self._groups.get(group), key.task
        if watched is None:
            watched = self._groups[group] = _Watched(Progress(at))
        elif watched.attempts.get(task) != key.number:
            watched = self._anew(group, watched, at)
        watched.attempts[task], watched.seen[task] = key.number, at
        return watched

    def _anew(self, group: Group, watched: _Watched, at: float) -> _Watched:
        """Forget all but the members: they are others now."""
        self._resolve(watched, at)
        fresh = _Watched(Progress(at), watched.attempts, watched.seen)
        self._groups[group] = fresh
        return fresh

    def _forget_gone(self, group: Group, watched: _Watched, now: float) -> None:
        if now - min(watched.seen.values(), default=now) <= self.limits.gone:
            return
        gone = [task for task, at in watched.seen.items() if now - at > self.limits.gone]
        for task in gone:
            del watched.seen[task], watched.attempts[task]
        self._anew(group, watched, now)
        if not watched.attempts:
            del self._groups[group]

    def _goes_on(self, watched: _Watched, at: float) -> None:
        self._resolve(watched, at)
        watched.looked = watched.first = None

    def _resolve(self, watched: _Watched, at: float) -> None:
        if watched.finding is not None:
            self._ended.append(_ended(watched.finding, at))
            watched.finding = None

    def _is_due(self, group: Group, watched: _Watched, now: float) -> bool:
        confirmed = watched.finding is not None and watched.finding.state is FindingState.CONFIRMED
        progress = watched.progress
        if confirmed:
            return False
        if progress.signs == 0:
            return group.trains and self._rests(watched, now)
        window = progress.window(self.limits)
        return now - (progress.since if watched.looked is None else watched.looked) >= window

    def _rests(self, watched: _Watched, now: float) -> bool:
        """Return whether a group that reports nothing has not worked for the last windows: at first for an hour."""
        limits, progress = self.limits, watched.progress
        if now - max(watched.rested, progress.since) < limits.window:
            return False
        watched.idle = watched.idle + 1 if progress.is_idle(limits) else 0
        watched.rested = now
        progress.measure_anew()
        return watched.idle * limits.window >= limits.patience

    def _may_work(self, group: Group, watched: _Watched, verdict: Verdict, evidence: Evidence, now: float) -> bool:
        """Return whether it may be evaluating, or writing a checkpoint."""
        limits, progress = self.limits, watched.progress
        if verdict.cause is Cause.UNKNOWN and not group.trains:
            return True  # such as a service that nobody uses
        prints = evidence.printed is not None and evidence.printed < limits.window / 2
        leads = progress.leader in verdict.busy
        patient = now - progress.since < max(limits.patience, progress.window(limits))
        return patient and (leads or prints or progress.moves_data(limits)) and verdict.cause is not Cause.GPU

    def _finding(self, group: Group, watched: _Watched, state: FindingState, verdict: Verdict, now: float) -> Finding:
        progress = watched.progress
        step = "" if progress.step is None else f" since step {progress.step:g}"
        what = f"{group.name} has made no progress{step} for {show_span(now - progress.since)}."
        if progress.signs == 0:
            what = f"{group.name} has done nothing for {show_span(watched.idle * self.limits.window)}."
        return Finding(
            job_id=group.job_id,
            component=group.name.partition(".")[0],
            generation=watched.generation,
            state=state,
            cause=verdict.cause,
            tasks=verdict.tasks,
            what=what,
            why=f"{'Cause' if verdict.sure >= 0.7 else 'Possible cause'}: {verdict.cause.value}: {verdict.why}.",
            sure=verdict.sure,
            evidence=_evidence(progress),
            since=progress.since,
            at=now,
        )


def _ended(finding: Finding, at: float) -> Finding:
    return structs.replace(finding, state=FindingState.RESOLVED, at=at, action="")


def _evidence(progress: Progress) -> tuple[str, ...]:
    behind = min(progress.reporters.values(), default=None)
    lines = [
        f"{task} has used {activity.cpu:.2f} cores and {activity.gpu:.2f} devices since then"
        for task, activity in sorted(progress.members.items(), key=lambda pair: -pair[1].cpu)[:3]
    ]
    if behind is not None and progress.step is not None and behind < progress.step:
        late = [task for task, step in progress.reporters.items() if step == behind]
        lines.append(f"{', '.join(late[:3])}: last reported step {behind:g}, others {progress.step:g}")
    return tuple(lines)
