"""Says which members of a component are slower than the others, and replaces them where the job wants that.

What their steps say of the speed of nodes goes to the master-agent, for the planner.

The rules (``master.detection.slow_members``) decide who is slow. A slow task is replaced (``replace: slow``) only if
the planner says that another node could run it now, where no other slow member is. Used by ``__main__``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import median_low
from typing import NamedTuple

from msgspec import structs

from grass.checks.speed import Stepped, by_steps
from grass.model.amounts import show_span
from grass.model.job import Job, Replace
from grass.model.key_text import checked_attempt_parts
from grass.model.lifecycle import JobState
from grass.model.notify import OnHang
from grass.store.history_store import Sampled
from grass.store.previews import Previews, Question
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.system import clock
from grass.system.entropy import operation_id, run_id
from grass.wire.finding import Cause, Finding, FindingState
from grass.wire.operation_record import GRASS, OperationKind
from grass.wire.tickets import NoteFinding, ReplaceTask, StepSpeeds
from master.autoscale.question import idle, one_more_unit
from master.detection.slow_members import Limits, Member, Slow, SlowMembers, Verdict
from master.monitor.open_findings import OpenFindings

MOST_REPLACED = 2
WITHIN = 6 * 3600.0
"""Seconds within which so many tasks of a component are replaced because they are slow, and no more."""
_PATIENCE = 30.0
"""Seconds within which the planner answers."""
_REASON = "slow: "
_MOST_JOBS = 4_096
"""Jobs whose specifications are remembered."""

log = logging.getLogger("grass.monitor")


class _Asked(NamedTuple):
    """The planner was asked where a slow task could run. ``since``: steady time."""

    finding: Finding
    component: str
    question: Question
    since: float


class SlowTasks:
    """Call ``take`` with the samples of each node, and ``turn`` often; both in one thread."""

    def __init__(
        self,
        records: Records,
        findings: OpenFindings,
        tickets: Tickets,
        previews: Previews,
        limits: Limits | None = None,
        steady: Callable[[], float] = clock.steady,
    ) -> None:
        self._records = records
        self._findings = findings
        self._tickets = tickets
        self._previews = previews
        self._steady = steady
        self._rules = SlowMembers(limits)
        self._jobs: dict[str, Job | None] = {}
        self._where: dict[Member, str] = {}
        """Member → its node."""
        self._slow: dict[Member, Slow] = {}
        self._asked: list[_Asked] = []
        self._now = 0.0

    def take(self, node: str, samples: Sequence[Sampled]) -> None:
        """Take new samples of a node, oldest first."""
        for sampled in samples:
            self._now = max(self._now, sampled.at)
            for point in sampled.sample.own:
                member = _member(point.key)
                if member is not None and self._is_watched(member):
                    self._where[member] = node
                    self._rules.feed(member, point.name, point.step, point.value, point.at, sampled.at)

    def turn(self) -> None:
        """Announce slow members, and replace some. Raises UnreachableError."""
        speeds: dict[str, list[float]] = {}
        for verdict in self._rules.judged(self._now):
            for node, each in self._by_steps(verdict).items():
                speeds.setdefault(node, []).append(each)
            for member in verdict.ended:
                self._over(member)
            for slow in verdict.slow:
                self._found(slow)
        if speeds:
            self._tickets.ticket(StepSpeeds({node: median_low(each) for node, each in speeds.items()}))
        for asked in list(self._asked):
            self._answered(asked)
        if len(self._where) > 2 * _MOST_JOBS:
            self._where = {member: node for member, node in self._where.items() if member in self._slow}

    def _by_steps(self, verdict: Verdict) -> dict[str, float]:
        """Return node → how fast it is by the steps of one component, beside nodes with GPUs of the same models."""
        where = {member: self._where[member] for member in verdict.times if member in self._where}
        kinds = {
            node.name: ", ".join(sorted({gpu.name for gpu in node.gpus}))
            for node in (self._records.some_nodes(sorted({*where.values()})) if where else ())
        }
        return by_steps(
            Stepped(node, kinds[node], verdict.times[member]) for member, node in where.items() if node in kinds
        )

    def _is_watched(self, member: Member) -> bool:
        part = None
        if (job := self._job(member.job_id)) is not None:
            part = job.components.get(member.component)
        return part is not None and not part.fixed_by and part.web is None  # others have work of their own

    def _job(self, job_id: str) -> Job | None:
        if job_id not in self._jobs:
            if len(self._jobs) >= _MOST_JOBS:
                self._jobs.clear()
            self._jobs[job_id] = self._records.spec(job_id)
        return self._jobs[job_id]

    def _found(self, slow: Slow) -> None:
        member, job = slow.member, self._job(slow.member.job_id)
        record = self._records.run(member.job_id)
        if job is None or record is None or record.state is not JobState.RUNNING:
            return
        self._slow[member] = slow
        finding = _finding(slow, self._where.get(member, ""), self._now)
        wanted = job.components[member.component].replace is Replace.SLOW
        if wanted and self._replaced(member) >= MOST_REPLACED:
            text = f"{MOST_REPLACED} tasks of {member.component} were replaced within 6 h; it is left as it is."
            finding = _with(finding, text)
        elif wanted:
            question = self._previews.ask(self._elsewhere(job, member), record.user, run_id("slow"))
            self._asked.append(_Asked(finding, member.component, question, self._steady()))
        log.warning("job %s: %s", job.name, finding.text)
        self._findings.put(_name(member), finding)
        if job.on_hang is not OnHang.LOG:
            self._tickets.ticket(NoteFinding(finding))

    def _over(self, member: Member) -> None:
        self._slow.pop(member, None)
        self._findings.remove(member.job_id, _generation(member))

    def _replaced(self, member: Member) -> int:
        since = self._now - WITHIN
        return sum(
            each.author == GRASS
            and each.kind is OperationKind.REPLACE
            and each.reason.startswith(_REASON)
            and each.component == member.component
            and each.filed >= since
            for each in self._records.operations(member.job_id)
        )

    def _elsewhere(self, job: Job, member: Member) -> Job:
        """Return the question to the planner: where the task would run, on none of the nodes with slow members."""
        nodes = {self._where[each] for each in self._slow if each.job_id == member.job_id and each in self._where}
        asked = one_more_unit(job, member.component)
        part = asked.components[member.component]
        part = replace(part, replicas=1, avoid=(*part.avoid, *sorted(nodes)))
        return replace(asked, components={member.component: part}, gang=())

    def _answered(self, asked: _Asked) -> None:
        answer = self._previews.answer(asked.question, 0)
        if answer is None and self._steady() - asked.since < _PATIENCE:
            return
        self._asked.remove(asked)
        finding, [task] = asked.finding, asked.finding.tasks
        member = next((each for each in self._slow if _generation(each) == finding.generation), None)
        if member is None or member.job_id != finding.job_id:
            return  # it is no longer slow
        fits = answer is not None and idle(answer, asked.component).fits
        if fits:
            reason = f"{_REASON}{finding.what}"
            self._tickets.ticket(
                ReplaceTask(job_id=finding.job_id, id=operation_id(), user=GRASS, task=task, reason=reason[:500])
            )
        done = "It is replaced." if fits else "No other node could run it now, so it is left where it is."
        self._findings.put(_name(member), _with(finding, done))


def _finding(slow: Slow, node: str, now: float) -> Finding:
    member = slow.member
    where = f" on {node}" if node else ""
    times = f"{slow.factor:.1f} times the median of {member.component} ({slow.median:.3g} s)"
    windows = f"in two windows of {show_span(slow.window)}"
    check = f"`grass node check {node} --level 1` measures the node" if node else "its node is not known"
    return Finding(
        job_id=member.job_id,
        component=member.component,
        generation=_generation(member),
        state=FindingState.CONFIRMED,
        cause=Cause.SLOW_MEMBER,
        tasks=(member.task,),
        what=f"{member.task}{where} needs {slow.seconds:.3g} s for a step, {times}, {windows}.",
        why=f"Possible cause: {Cause.SLOW_MEMBER.value}: its node is slower, or it has more work; {check}.",
        sure=0.5,
        since=now - 2 * slow.window,
        at=now,
    )


def _with(finding: Finding, action: str) -> Finding:
    return structs.replace(finding, action=action)


def _name(member: Member) -> str:
    return f"slow {member.task}"


def _generation(member: Member) -> str:
    return f"slow:{member.job_id}/{member.task}/{member.number}"


@lru_cache(1 << 14)
def _member(key: str) -> Member | None:
    parts = checked_attempt_parts(key)
    return None if parts is None else Member(parts[0], parts[1], f"{parts[1]}.{parts[2]}", parts[3])
