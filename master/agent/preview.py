"""Where a job would go if it were submitted now: the same planner over the same view, and nothing of it is kept.

Asked by the API with a ticket of kind ``plan``; the answer goes to the stream ``plans`` with the commit that takes the
ticket. Must not touch the memory: the job that is asked about never enters it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from grass.model.job import Condition, Job
from grass.model.lifecycle import JobState
from grass.model.reasons import Reason, ReasonCode
from master.agent import viewing, waits
from master.agent.recover import new_run
from master.agent.state import JobRun
from master.agent.step import Step
from master.planning.decide import decide
from master.planning.model import Demand, Placement, Plan, QueuedJob

ASKED = "?"
"""The id of the job that is asked about; no job has it."""


def answer(step: Step, question: dict[str, Any]) -> None:
    """``question``: ``{"question": id, "spec", "user"}``, as the ticket has it."""
    run = _imagined(step, Job.from_wire(question["spec"]), question["user"])
    viewing.refresh(step)
    demands = tuple(_demand(run, name) for name in run.components if not _later(run.job, name))
    queued = replace(viewing.queued(run, demands), id=ASKED)
    plan = _decide(step, queued)
    step.changes.plans[question["question"]] = {
        "reason": _wire(_after(step, run)),
        "components": {name: _component(run, name, plan) for name in run.components},
        "evictions": _evictions(step, plan),
    }


def _imagined(step: Step, job: Job, user: str) -> JobRun:
    """Behind all that wait."""
    view = {"id": ASKED, "name": job.name, "user": user, "state": JobState.QUEUED.value, "reason": None}
    run = new_run(job, view)
    run.place = max((other.place for other in step.cluster.jobs.values()), default=0) + 1
    return run


def _decide(step: Step, queued: QueuedJob) -> Plan:
    view = viewing.view_of(step, [*step.cluster.board.queue.values(), queued])
    return decide(view) if queued.demands else Plan()


def _later(job: Job, name: str) -> bool:
    """Whether it starts only when others have ended, so that what runs now says nothing about its place."""
    seen: set[str] = set()
    pending = [name]
    while pending:
        part = job.components[pending.pop()]
        if part.name in seen:
            continue
        seen.add(part.name)
        if Condition.SUCCEEDED in part.depends_on.values():
            return True
        pending.extend(part.depends_on)
    return False


def _demand(run: JobRun, name: str) -> Demand:
    return viewing.demand(run, run.components[name])


def _component(run: JobRun, name: str, plan: Plan) -> dict[str, Any]:
    spec = run.components[name].spec
    reason = plan.waiting.get((ASKED, name))
    if reason is None and _later(run.job, name):
        reason = Reason(ReasonCode.DEPENDS_ON, "starts only after others have succeeded; see what it depends on")
    return {
        "replicas": spec.replicas,
        "at_once": run.components[name].startable,
        "depends_on": {other: condition.value for other, condition in spec.depends_on.items()},
        "nodes": _places(plan.placements, name),
        "reason": _wire(reason),
    }


def _places(placements: Iterable[Placement], component: str) -> list[dict[str, Any]]:
    """By node. ``devices``: id and thousandths, over all tasks that go there."""
    counts: dict[str, int] = {}
    devices: dict[str, dict[int, int]] = {}
    for one in placements:
        if (one.job, one.component) == (ASKED, component):
            counts[one.node] = counts.get(one.node, 0) + one.count
            held = devices.setdefault(one.node, {})
            for shares in one.devices:
                for device, share in shares:
                    held[device] = held.get(device, 0) + share
    return [
        {"node": node, "count": count, "devices": sorted(map(list, devices[node].items()))}
        for node, count in sorted(counts.items())
    ]


def _evictions(step: Step, plan: Plan) -> list[dict[str, Any]]:
    """By job: how many of its tasks would be stopped for this one."""
    counts: dict[str, int] = {}
    for eviction in plan.evictions:
        if eviction.beneficiary == ASKED:
            counts[eviction.job] = counts.get(eviction.job, 0) + eviction.count
    jobs = step.cluster.jobs
    return [{"job": jobs[job].job.name, "user": jobs[job].user, "count": count} for job, count in counts.items()]


def _after(step: Step, run: JobRun) -> Reason | None:
    """What it would wait for, or why it could never begin."""
    for position, after in enumerate(run.job.after):
        other = waits.find(step, run, after)
        if other is None or not other.state.ended:
            continue
        if after.state == "succeeded" and other.state is not JobState.SUCCEEDED:
            message = f"could never begin: it waits until job {after.job} has succeeded, which is {other.state.value}"
            return Reason(ReasonCode.AFTER_FAILED, message, {"job": other.id, "state": other.state.value})
        run.met.add(position)
    return waits.reason(step, run)


def _wire(reason: Reason | None) -> dict[str, Any] | None:
    return None if reason is None else reason.to_wire()
