"""Finds jobs that stand still: feeds the rules with samples, collects stacks, and files what follows.

The rules (``master.detection``) decide. Stacks are collected in a thread, because a node may not answer. Used by
``__main__``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from msgspec import structs

from grass.config import ClusterConfig
from grass.model.framework import is_dlrover_master
from grass.model.job import Job
from grass.model.key_text import attempt_parts, checked_attempt_parts
from grass.model.lifecycle import JobState
from grass.model.notify import OnHang
from grass.store.history_store import Sampled
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.system import clock
from grass.system.entropy import operation_id
from grass.wire.finding import Finding, FindingState
from grass.wire.node_record import NodeRecord
from grass.wire.operation_record import GRASS, OperationKind
from grass.wire.stacks import TaskStacks
from grass.wire.tickets import NoteFinding, RestartJob
from grass.wire.usage import OwnNotFinite, OwnPoint
from master.detection.progress import Limits
from master.detection.standstills import Attempt, Evidence, Group, Standstills
from master.monitor.open_findings import OpenFindings
from master.node_calls.stacks import collect

MOST_RESTARTS = 2
WITHIN = 6 * 3600.0
"""Seconds in which a job is restarted so often, and not more."""
_REASON = "stands still: "
_MOST_JOBS = 4_096
"""Jobs whose specifications are remembered."""
_MOST_LOGS = 64
"""Members whose logs are looked at."""
_PRUNE_EVERY = 60.0

log = logging.getLogger("grass.monitor")
Collect = Callable[[Mapping[str, NodeRecord], Mapping[str, Sequence[str]]], Sequence[TaskStacks]]


class _Known(NamedTuple):
    """What is remembered of a job. ``groups``: component → whether its members have a framework; None: each of its
    tasks works alone. A component that is not there is not watched."""

    name: str
    on_hang: OnHang
    groups: Mapping[str, bool | None]


class Hangs:
    """Call ``take`` with the samples of each node, and ``turn`` often; both in one thread."""

    def __init__(
        self,
        config: ClusterConfig,
        records: Records,
        findings: OpenFindings,
        tickets: Tickets,
        limits: Limits | None = None,
        stacks: Collect | None = None,
    ) -> None:
        """``stacks``: asks the nodes for stacks."""
        self._config = config
        self._records = records
        self._findings = findings
        self._tickets = tickets
        self._stacks: Collect = stacks or (lambda nodes, wanted: collect(config, nodes, wanted).tasks)
        self._rules = Standstills(limits)
        self._known: dict[str, _Known | None] = {}
        self._where: dict[str, str] = {}
        """Attempt → its node, of members of groups."""
        self._sick: dict[str, str] = {}
        self._asked: dict[Group, Future[Evidence]] = {}
        self._pool = ThreadPoolExecutor(2, "hangs")
        self._now = 0.0
        self._pruned: float | None = None

    def take(self, node: str, samples: Sequence[Sampled]) -> None:
        """Take new samples of a node, oldest first."""
        for sampled in samples:
            sample = sampled.sample
            self._now = max(self._now, sampled.at)
            tasks = [(key, task) for task in sample.tasks if (key := _attempt(task.key)) is not None]
            reported: list[OwnPoint | OwnNotFinite] = [*sample.own, *sample.not_finite]  # a run that diverges goes on
            points = [(key, point) for point in reported if (key := _attempt(point.key)) is not None]
            self._where.update((task.key, node) for task in sample.tasks)
            errors = [f"gpu {gpu.id} fails: {gpu.error}" for gpu in sample.node.gpus if gpu.error]
            self._sick.pop(node, None)
            if errors:
                self._sick[node] = errors[0]
            self._rules.feed(sampled.at, tasks, points, self._group)

    def turn(self, nodes: Mapping[str, NodeRecord]) -> None:
        """Ask for stacks that are wanted, and take what nodes answered. Raises UnreachableError."""
        for group in self._rules.due(self._now):
            if group not in self._asked:
                members = self._rules.members(group)
                self._asked[group] = self._pool.submit(self._collect, dict(nodes), members, dict(self._sick))
        for group in [group for group, asked in self._asked.items() if asked.done()]:
            evidence = self._asked.pop(group).result()
            if (finding := self._rules.judged(group, evidence, self._now)) is not None:
                self._found(group, finding)
        for finding in self._rules.take_ended():
            self._over(finding)
        if self._pruned is None:
            self._pruned = self._now  # at first, not all nodes have sent a sample
        elif self._now - self._pruned >= _PRUNE_EVERY:
            self._prune()
            self._pruned = self._now

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _group(self, key: Attempt) -> Group | None:
        if key.job_id not in self._known:
            if len(self._known) >= _MOST_JOBS:
                self._known.clear()
            self._known[key.job_id] = _known(self._records.spec(key.job_id))
        known = self._known[key.job_id]
        if known is None or key.component not in known.groups:
            return None
        trains = known.groups[key.component]
        name = key.task if trains is None else key.component
        return Group(key.job_id, name, bool(trains))

    def _collect(self, nodes: Mapping[str, NodeRecord], members: Sequence[str], sick: Mapping[str, str]) -> Evidence:
        """Runs in a thread."""
        wanted: dict[str, list[str]] = {}
        for key in members:
            if (node := self._where.get(key)) is not None:
                wanted.setdefault(node, []).append(key)
        return Evidence(self._stacks(nodes, wanted), sick, self._printed(members))

    def _printed(self, members: Sequence[str]) -> float | None:
        """Return the seconds since a member printed something."""
        newest = None
        for key in members[:_MOST_LOGS]:
            job_id, task, _ = attempt_parts(key)
            with suppress(OSError):
                at = (self._config.data_dir / "logs" / job_id / f"{task}.jsonl").stat().st_mtime
                newest = at if newest is None else max(newest, at)
        return None if newest is None else max(0.0, clock.wall() - newest)

    def _found(self, group: Group, finding: Finding) -> None:
        known = self._known.get(group.job_id)
        record = self._records.run(group.job_id)
        if known is None or record is None or record.state is not JobState.RUNNING or record.operation is not None:
            return
        confirmed = finding.state is FindingState.CONFIRMED
        if confirmed and known.on_hang is OnHang.ACT:
            finding = structs.replace(finding, action=self._act(finding))
        log.warning("job %s: %s: %s", known.name, finding.state.value.lower(), finding.text)
        self._findings.put(group.name, finding)
        if known.on_hang is not OnHang.LOG:
            self._tickets.ticket(NoteFinding(finding))

    def _act(self, finding: Finding) -> str:
        """Restart the job, unless that happened too often. Return what was done."""
        since = self._now - WITHIN
        restarts = sum(
            each.author == GRASS and each.kind is OperationKind.RESTART and each.filed >= since
            for each in self._records.operations(finding.job_id)
        )
        if restarts >= MOST_RESTARTS:
            return f"It was restarted {restarts} times within 6 h; it is left as it is: look at it, or stop it."
        reason = f"{_REASON}{finding.cause.value}"
        self._tickets.ticket(RestartJob(job_id=finding.job_id, id=operation_id(), user=GRASS, reason=reason))
        return f"The job is restarted (restart {restarts + 1} of at most {MOST_RESTARTS} within 6 h)."

    def _over(self, finding: Finding) -> None:
        if self._findings.remove(finding.job_id, finding.generation) is not None:
            known = self._known.get(finding.job_id)
            if known is not None and known.on_hang is not OnHang.LOG:
                self._tickets.ticket(NoteFinding(finding))

    def _prune(self) -> None:
        """Remove findings about jobs that have ended, and those of an earlier monitor that hold no longer."""
        for job_id, findings in self._records.found().items():
            record = self._records.run(job_id)
            if record is None or record.state.ended:
                self._findings.forget(job_id)
            elif job_id not in self._findings:
                self._findings.keep(job_id, findings, self._rules.may_hold)
        members = self._rules.all_members()
        self._where = {key: node for key, node in self._where.items() if key in members}


def _known(job: Job | None) -> _Known | None:
    if job is None:
        return None
    groups: dict[str, bool | None] = {}
    for name, part in job.components.items():
        if part.web is None and not is_dlrover_master(part.framework, name):  # a service waits for its users
            alone = bool(part.fixed_by or part.parallelism)
            groups[name] = None if alone else part.framework is not None
    return _Known(job.name, job.on_hang, groups)


@lru_cache(1 << 14)
def _attempt(key: str) -> Attempt | None:
    parts = checked_attempt_parts(key)
    return None if parts is None else Attempt(parts[0], parts[1], f"{parts[1]}.{parts[2]}", parts[3])
