"""`/v1/jobs/{job}/autoscale`: what Grass would make of the sizes of a job's components, and why. Changes nothing.

The monitor does it (``master.monitor.autoscaler``), by the same rules. Used by ``handlers``.
"""

from __future__ import annotations

from collections.abc import Iterator

from grass.errors import ConflictError, InputError, NotFoundError
from grass.model.job import Job
from grass.model.lifecycle import JobState
from grass.system.entropy import run_id
from grass.wire.autoscale_views import AutoscaleView, ComponentAutoscale
from master.api.call import Call
from master.api.job_changes import find_job
from master.api.redaction import Redaction
from master.autoscale import rates
from master.autoscale.question import idle, one_more_unit
from master.autoscale.reading import Reader, Situation, scalable
from master.autoscale.rules import Act, Decision, Idle, Key, decide
from master.autoscale.waiting import Waiter


def explain_autoscale(call: Call, job: str) -> AutoscaleView:
    record = find_job(call, job)
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name}: is being removed")
    _check(spec)
    if record.state is not JobState.RUNNING:
        raise ConflictError(f"job {record.name}: is {record.state.value}; only a running job can be scaled")
    situation, now = Reader(call.api.store, call.api.store.history).read(record), call.api.wall()
    known: dict[Key, Idle] = {}
    decisions = decide(situation.subjects, situation.waiters, known, now)
    for asked in [each for each in decisions if each.act is Act.ASK and each.subject.job_id == record.id]:
        known[asked.subject.key] = _ask(call, spec, asked.subject.component, record.user)
    if known:
        decisions = decide(situation.subjects, situation.waiters, known, now)
    own = [each for each in decisions if each.subject.job_id == record.id]
    components = tuple(_component(call, each, spec, situation, known, now) for each in own)
    return AutoscaleView(record.id, record.name, components)


def _check(spec: Job) -> None:
    if not any(scalable(part) for part in spec.components.values()):
        why = "`autoscale` needs `min` and `max`, and a framework whose tasks follow a new size"
        raise InputError(f"job {spec.name}: components: none can be scaled by Grass; {why}")


def _ask(call: Call, spec: Job, component: str, user: str) -> Idle:
    patience = call.api.waits.preview
    answer = call.api.store.preview(one_more_unit(spec, component), user, run_id("autoscale"), patience)
    return (
        Idle(False, "the master-agent does not answer")
        if answer is None
        else idle(Redaction(call).job(answer), component)
    )


def _component(
    call: Call, decision: Decision, spec: Job, situation: Situation, known: dict[Key, Idle], now: float
) -> ComponentAutoscale:
    subject = decision.subject
    return ComponentAutoscale(
        component=subject.component,
        enabled=spec.components[subject.component].autoscale is not None,
        policy=subject.policy.policy.value,
        size=subject.size,
        min=subject.least,
        max=subject.most,
        unit=subject.unit,
        to_size=decision.size,
        rule=decision.rule,
        why=decision.why,
        facts=tuple(_facts(call, decision, situation, known, now)),
    )


def _named(call: Call, waiter: Waiter) -> str:
    return f"{waiter.job}/{waiter.component}" if call.sees(waiter.user) else "another user's job"


def _facts(call: Call, decision: Decision, situation: Situation, known: dict[Key, Idle], now: float) -> Iterator[str]:
    subject = decision.subject
    speed = rates.before(subject.reports, subject.since, now, subject.policy.cooldown)
    yield f"speed: {'not reported, so no gain is measured' if speed is None else speed}"
    waiting = [f"{_named(call, each)} (priority {each.priority})" for each in situation.waiters[:3]]
    more = f" and {len(situation.waiters) - 3} more" if len(situation.waiters) > 3 else ""
    yield f"waiting for resources: {', '.join(waiting) + more if waiting else 'nothing'}"
    found = known.get(subject.key)
    if found is not None:
        yield f"planner: {subject.unit} more {'fit now' if found.fits else f'do not fit now: {found.why}'}"
    done = [each for each in subject.operations if each.component == subject.component and each.rule is not None]
    for each in done[-3:]:
        outcome = each.state.value if each.outcome is None else each.outcome.value
        sizes = f"{each.from_size} → {each.to_size}" if each.from_size is not None else f"→ {each.size}"
        yield f"earlier: {sizes}, {each.rule.value if each.rule else ''}: {outcome}; {each.reason}"
