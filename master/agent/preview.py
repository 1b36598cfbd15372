"""The answer to `grass job plan`: where a job would go if it were submitted now, by the same planner and input.

The API asks with a ticket of kind ``plan``. The answer is written to the stream ``plans`` by the commit that takes the
ticket. This module must not change the memory: the job in question never enters it. Used by ``reactor``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from grass.model.job import Condition, Job
from grass.model.reasons import Reason, ReasonCode
from grass.wire.job_record import first_record
from grass.wire.plan_answer import PlanAnswer, PlannedComponent, PlannedNode, PlannedPreemption
from grass.wire.tickets import PlanJob
from master.agent import job_dependencies, planner_snapshot
from master.agent.state import JobRun
from master.agent.step import Step
from master.planning.model import Placement, Plan, QueuedJob

ASKED = "?"
"""The id of the job in question. No real job has it."""


def answer(step: Step, asked: PlanJob) -> None:
    """Answer one question. An error while planning becomes the answer: a question must not disturb the round."""
    planner_snapshot.refresh(step)
    try:
        step.changes.plans[asked.question] = _answer(step, asked)
    except Exception as error:  # noqa: BLE001 (a defect of the planner may raise anything; the loop logs it)
        step.errors.append(error)
        message = f"internal error while planning ({type(error).__name__}: {error}); see the master-agent's log"
        step.changes.plans[asked.question] = PlanAnswer(reason=Reason(ReasonCode.SET_ASIDE, message))


def _answer(step: Step, asked: PlanJob) -> PlanAnswer:
    run = _imagined(step, asked.job, asked.user)
    starting = [run.components[name] for name in run.components if not _later(run.job, name)]
    demands = tuple(demand for component in starting for demand in planner_snapshot.demands_of(run, component))
    queued = replace(
        planner_snapshot.queued(run, demands, estimate=planner_snapshot.longest_estimate(step, run, demands)), id=ASKED
    )
    plan = _decide(step, queued)
    components = {name: _component(run, name, plan) for name in run.components}
    return PlanAnswer(components, _preemptions(step, plan), _after(step, run))


def _imagined(step: Step, job: Job, user: str) -> JobRun:
    """Return the job as if it were last in the queue."""
    run = JobRun.new(job, first_record(job, job_id=ASKED, user=user, now=step.wall))
    run.position = step.cluster.positions + 1
    for component in run.components.values():
        for index in sorted(component.closed or ()):
            component.open(index)
    return run


def _decide(step: Step, queued: QueuedJob) -> Plan:
    snapshot = planner_snapshot.snapshot_of(step, [*step.cluster.cache.queue.values(), queued])
    return step.decide(snapshot) if queued.demands else Plan()


def _later(job: Job, name: str) -> bool:
    """Return whether the component starts after others have succeeded, so that today's free resources say nothing."""
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


def _component(run: JobRun, name: str, plan: Plan) -> PlannedComponent:
    component = run.components[name]
    reason = plan.waiting.get((ASKED, name))
    if reason is None and _later(run.job, name):
        reason = Reason(ReasonCode.DEPENDS_ON, "starts only after the components it depends on have succeeded")
    nodes = _nodes(plan.placements, name)
    return PlannedComponent(component.size, component.startable, component.spec.depends_on, nodes, reason)


def _nodes(placements: Iterable[Placement], component: str) -> tuple[PlannedNode, ...]:
    """Return the component's placements by node. ``devices``: (id, thousandths), summed over all of its tasks there."""
    counts: dict[str, int] = {}
    devices: dict[str, dict[int, int]] = {}
    for one in placements:
        if (one.job, one.component) == (ASKED, component):
            counts[one.node] = counts.get(one.node, 0) + one.count
            allocated = devices.setdefault(one.node, {})
            for shares in one.devices:
                for device, share in shares:
                    allocated[device] = allocated.get(device, 0) + share
    return tuple(
        PlannedNode(node, count, tuple(sorted(devices[node].items()))) for node, count in sorted(counts.items())
    )


def _preemptions(step: Step, plan: Plan) -> tuple[PlannedPreemption, ...]:
    """Return for each job how many of its tasks would be preempted for this one."""
    counts: dict[str, int] = {}
    for eviction in plan.evictions:
        if eviction.beneficiary == ASKED:
            counts[eviction.job] = counts.get(eviction.job, 0) + eviction.count
    jobs = step.cluster.jobs
    return tuple(PlannedPreemption(jobs[job].name, jobs[job].user, count) for job, count in counts.items())


def _after(step: Step, run: JobRun) -> Reason | None:
    """Return which other job it would wait for, or why it could never start."""
    for position, after in enumerate(run.job.after):
        other = job_dependencies.find(step, run, after)
        if other is None or not other.state.ended:
            continue
        if not after.same_tasks and not after.state.allows(other.state):
            aim = job_dependencies.AIMS[after.state]
            message = f"could never start: it waits until job {after.job} {aim}, but that job is {other.state.value}"
            return Reason(ReasonCode.AFTER_FAILED, message, {"job": other.id, "state": other.state.value})
        run.met |= {position}
    return job_dependencies.reason(step, run)
