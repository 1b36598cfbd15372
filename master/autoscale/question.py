"""What the planner is asked before a component grows: whether one more unit of it fits now. Pure.

Used by ``master.monitor.autoscaler`` and ``master.api.autoscale``.
"""

from __future__ import annotations

from dataclasses import replace

from grass.model.ending import PLAIN_ENDING
from grass.model.job import Job
from grass.wire.plan_answer import PlanAnswer
from master.autoscale.rules import Idle


def one_more_unit(job: Job, component: str) -> Job:
    """Return a job of one unit of the component, which starts together. It has the lowest priority: nothing is
    preempted for it."""
    part = job.components[component]
    unit = replace(part, replicas=part.unit, min=None, max=None, unit=1, autoscale=None, depends_on={})
    alone = {component: unit}
    gang = (component,) if part.unit > 1 else ()
    return replace(
        job, components=alone, success=(component,), gang=gang, after=(), priority=0, ending=PLAIN_ENDING, carried={}
    )


def idle(answer: PlanAnswer, component: str) -> Idle:
    """Return what the planner's answer to this says."""
    planned = answer.components.get(component)
    reason = answer.reason or (planned.reason if planned is not None else None)
    count = 0 if planned is None else sum(node.count for node in planned.nodes)
    if reason is None and planned is not None and count == planned.replicas:
        return Idle(True)
    return Idle(False, "the planner did not place them" if reason is None else reason.message)
