"""Where a job would go if it were submitted now: the same planner over the same view, and nothing of it is kept.

Asked by the API with a ticket of kind ``plan``; the answer goes to the stream ``plans`` with the commit that takes the
ticket. Must not touch the memory: the job that is asked about never enters it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from grass.model.job import Condition, Job
from grass.model.lifecycle import JobState
from grass.model.reasons import Reason, ReasonCode
from grass.wire.job_record import first_record
from grass.wire.plan_answer import PlanAnswer, PlannedComponent, PlannedNode, PlannedPreemption
from grass.wire.tickets import PlanJob
from master.agent import viewing, waits
from master.agent.state import JobRun
from master.agent.step import Step
from master.planning.model import Demand, Placement, Plan, QueuedJob

ASKED = "?"
"""The id of the job that is asked about; no job has it."""


def answer(step: Step, asked: PlanJob) -> None:
    """Whatever the planner makes of the job: it is a question, so nothing else may fail with it."""
    viewing.refresh(step)
    try:
        step.changes.plans[asked.question] = _answer(step, asked)
    except Exception as error:  # noqa: BLE001 (whatever a defect of the planner raises; the loop logs it)
        step.errors.append(error)
        message = f"cannot be planned: internal error ({type(error).__name__}: {error}); see the master-agent's log"
        step.changes.plans[asked.question] = PlanAnswer(reason=Reason(ReasonCode.SET_ASIDE, message))


def _answer(step: Step, asked: PlanJob) -> PlanAnswer:
    run = _imagined(step, asked.job, asked.user)
    demands = tuple(_demand(run, name) for name in run.components if not _later(run.job, name))
    queued = replace(viewing.queued(run, demands), id=ASKED)
    plan = _decide(step, queued)
    components = {name: _component(run, name, plan) for name in run.components}
    return PlanAnswer(components, _preemptions(step, plan), _after(step, run))


def _imagined(step: Step, job: Job, user: str) -> JobRun:
    """Behind all that wait."""
    run = JobRun.new(job, first_record(job, job_id=ASKED, user=user, now=step.wall))
    run.position = step.cluster.positions + 1
    return run


def _decide(step: Step, queued: QueuedJob) -> Plan:
    view = viewing.view_of(step, [*step.cluster.cache.queue.values(), queued])
    return step.decide(view) if queued.demands else Plan()


def _later(job: Job, name: str) -> bool:
    """Whether it starts only when others have ended, so that what runs now says nothing about where."""
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


def _component(run: JobRun, name: str, plan: Plan) -> PlannedComponent:
    component = run.components[name]
    reason = plan.waiting.get((ASKED, name))
    if reason is None and _later(run.job, name):
        reason = Reason(ReasonCode.DEPENDS_ON, "starts only after others have succeeded; see what it depends on")
    nodes = _nodes(plan.placements, name)
    return PlannedComponent(component.size, component.startable, component.spec.depends_on, nodes, reason)


def _nodes(placements: Iterable[Placement], component: str) -> tuple[PlannedNode, ...]:
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
    return tuple(
        PlannedNode(node, count, tuple(sorted(devices[node].items()))) for node, count in sorted(counts.items())
    )


def _preemptions(step: Step, plan: Plan) -> tuple[PlannedPreemption, ...]:
    """By job: how many of its tasks would be stopped for this one."""
    counts: dict[str, int] = {}
    for eviction in plan.evictions:
        if eviction.beneficiary == ASKED:
            counts[eviction.job] = counts.get(eviction.job, 0) + eviction.count
    jobs = step.cluster.jobs
    return tuple(PlannedPreemption(jobs[job].name, jobs[job].user, count) for job, count in counts.items())


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
