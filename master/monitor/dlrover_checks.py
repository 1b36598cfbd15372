"""Says which nodes the network check of a job with ``framework: dlrover`` names as at fault.

The job's master of DLRover's clients (``grass_dlrover``) reports them as a figure of its own. Used by ``__main__``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from grass.model.framework import DLROVER_FAULT, DLROVER_WORKER, is_dlrover_master
from grass.model.job import Job
from grass.model.key_text import checked_attempt_parts
from grass.model.lifecycle import JobState
from grass.model.notify import OnHang
from grass.store.history_store import Sampled
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.wire.attempt_record import field_of
from grass.wire.finding import Cause, Finding, FindingState
from grass.wire.tickets import NoteFinding
from grass.wire.usage import OwnPoint
from master.monitor.open_findings import OpenFindings

_MOST_NEWS = 4_096
"""Results between two turns. Further ones are dropped: a master sends one for each node whose result has changed."""

log = logging.getLogger("grass.monitor")


class _Result(NamedTuple):
    """``attempt`` 0: the node is no longer at fault."""

    job: Job
    job_id: str
    component: str
    task: str
    attempt: int
    at: float

    @property
    def name(self) -> str:
        return f"check {self.task}"

    @property
    def generation(self) -> str:
        return f"check:{self.job_id}/{self.task}"


class DlroverChecks:
    """Call ``take`` with new samples, and ``turn`` often; both in one thread."""

    def __init__(self, records: Records, findings: OpenFindings, tickets: Tickets) -> None:
        self._records = records
        self._findings = findings
        self._tickets = tickets
        self._news: list[OwnPoint] = []
        self._begun = False

    def take(self, samples: Sequence[Sampled]) -> None:
        """Take new samples of a node, oldest first."""
        found = [point for sampled in samples for point in sampled.sample.own if point.name == DLROVER_FAULT]
        self._news += found[: _MOST_NEWS - len(self._news)]

    def turn(self) -> None:
        """Announce nodes at fault, and remove findings about others. Raises UnreachableError."""
        if not self._begun:
            self._resume()
        while self._news:
            result = self._result(self._news[0])
            if result is not None:
                self._note(result)
            del self._news[0]

    def _resume(self) -> None:
        """Take over what an earlier monitor found: a master reports only changes."""
        for findings in self._records.found().values():
            for each in findings:
                if each.cause is Cause.NODE_CHECK:
                    self._findings.put(f"check {each.tasks[0]}", each)
        self._begun = True

    def _result(self, point: OwnPoint) -> _Result | None:
        """Return what a point says. None: no master of DLRover's clients sent it, or its job has ended."""
        parts = checked_attempt_parts(point.key)
        job = self._records.spec(parts[0]) if parts is not None else None
        part = job.components.get(parts[1]) if job is not None and parts is not None else None
        if job is None or parts is None or part is None or not is_dlrover_master(part.framework, part.name):
            return None
        assert part.framework is not None, "a master has one"
        component = str(part.framework.options.get(DLROVER_WORKER, DLROVER_WORKER))
        record = self._records.run(parts[0])
        if component not in job.components or record is None or record.state is not JobState.RUNNING:
            return None
        task = f"{component}.{point.step:.0f}"
        return _Result(job, parts[0], component, task, int(point.value), point.at)

    def _note(self, result: _Result) -> None:
        if not result.attempt:
            self._findings.remove(result.job_id, result.generation)
            return
        finding = _finding(result, self._node(result))
        log.warning("job %s: %s", result.job.name, finding.text)
        self._findings.put(result.name, finding)
        if result.job.on_hang is not OnHang.LOG:
            self._tickets.ticket(NoteFinding(finding))

    def _node(self, result: _Result) -> str:
        """Return the node of the attempt; empty: it is not known any more."""
        for record in self._records.some_tasks(result.job_id, [result.task]).values():
            if record.attempt == result.attempt:
                return record.node or ""
        earlier = self._records.attempts(result.job_id, [field_of(result.task, result.attempt)])
        return next((each.node or "" for each in earlier.values()), "")


def _finding(result: _Result, node: str) -> Finding:
    check = f"`grass node check {node} --level 1` measures the node" if node else "its node is not known any more"
    whose = f"node {node}" if node else "the node"
    return Finding(
        job_id=result.job_id,
        component=result.component,
        generation=result.generation,
        state=FindingState.CONFIRMED,
        cause=Cause.NODE_CHECK,
        tasks=(result.task,),
        what=f"The network check of DLRover names {whose} of {result.task} as at fault.",
        why=f"Attempt {result.attempt} failed in both rounds of the check; its partner may be the reason; {check}.",
        sure=0.5,  # in small groups, DLRover's pairs also accuse the partner
        since=result.at,
        at=result.at,
    )
