"""Checks of nodes before tasks of a component start there (``check: before``), and after failures. Pure.

The planner places tasks as always. What it places on a node that the component does not know, and that passed no check
lately, waits while the node is checked by a job of Grass (ADR 29). The monitor judges what that job printed. Such a job
also follows a failure that a node may have caused. Called by ``node_checks``, ``placement``, ``planner_snapshot``,
``tasks`` and the reactor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grass.model.ending import Ending
from grass.model.job import MAX_PRIORITY, Component, Job
from grass.model.lifecycle import NodeState
from grass.model.names import MAX_NAME
from grass.model.namespace import is_namespace
from grass.model.reasons import Details, Reason, ReasonCode
from grass.model.resources import DEVICE, Resources
from grass.wire.checks import NodeCheck, ProbeRequest
from grass.wire.codec import encode
from grass.wire.job_record import first_record
from grass.wire.operation_record import GRASS
from master.agent import jobs
from master.agent.component_run import ComponentRun
from master.agent.node_run import NodeRun
from master.agent.state import JobRun
from master.agent.step import Step
from master.planning.model import Placement

RECENT = 6 * 3600.0
"""Seconds for which a good check of a node holds, by the master's clock."""
AGAIN = 600.0
"""Seconds until a node is tried again whose check was not good."""
BUSY = 10.0
"""Seconds until a node with tasks is looked at again, which a check above level 0 needs alone."""
UNHEARD = 60.0
"""Seconds after the end of a check's job until its verdict counts as lost."""
_MOST_SECONDS = 180.0
_KEPT = 3600.0
"""Seconds for which the record of a check's job is kept."""
_RUN = 'program=$1; shift; printf "%s\\n" "$@" | exec python3 -u -c "$program"'
_SHOWN = 3


def passed(step: Step, placements: list[Placement]) -> list[Placement]:
    """Return the placements that may be carried out, and begin the checks that the others wait for. Of a job whose
    tasks start together, all wait."""
    held = {at: each for at, each in enumerate(placements) if not _passes(step, each)}
    if not held:
        return placements
    for each in held.values():
        _hold(step, each)
    whole = {each.job for each in held.values() if not step.cluster.jobs[each.job].divisible}
    return [each for at, each in enumerate(placements) if at not in held and each.job not in whole]


def waits(run: JobRun, component: ComponentRun) -> Reason | None:
    """Return why no task of the component is placed now: nodes are being checked for all that could start."""
    if run.divisible:
        nodes = sorted(_checked_now(component))
        if len(nodes) < component.startable:
            return None
    else:
        nodes = sorted({node for part in run.components.values() for node in _checked_now(part)})
    if not nodes:
        return None
    named = ", ".join(nodes[:_SHOWN]) + (f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else "")
    text = f"node {named} is being checked" if len(nodes) == 1 else f"nodes {named} are being checked"
    return Reason(ReasonCode.CHECKING, f"{text} before its tasks start there", Details(node=nodes[0]))


def over(step: Step, node: NodeRun, check: NodeCheck) -> None:
    """A check of the node ended: let tasks that waited for it start there, or keep them away for a while."""
    for run, component in _waiting_for(step, node.name):
        if component.spec.check is not None and _is_good(check, component.spec.check):
            _forget(step, run, component, [node.name])
        elif component.checking[node.name] is None:
            _look_again(step, run, component, node.name, AGAIN)


def settle(step: Step, run: JobRun) -> None:
    """Take the end of a check, and of a job that may have waited for one."""
    if run.outcome is None and not run.state.ended:
        return
    for component in run.components.values():
        if component.spec.checks and run.user == GRASS and run.state.ended:
            step.agenda.add(step.now + UNHEARD, "checked", component.spec.checks)
        nodes, component.checking = _checked_now(component), {}
        for node in nodes:
            _stop_unwanted(step, node)


def due(step: Step, run: JobRun, component: ComponentRun) -> None:
    """Let the planner consider nodes again that were left out for a time."""
    found = component.checking.items()
    _forget(step, run, component, [name for name, until in found if until is not None and until <= step.now])


def unheard(step: Step, node: str) -> None:
    """Wait no longer for the verdict of a check whose job has ended a while ago."""
    if _job_of(step, node) is None:
        for run, component in _waiting_for(step, node):
            if component.checking[node] is None:
                _look_again(step, run, component, node, AGAIN)


def after_failure(step: Step, node: NodeRun) -> bool:
    """Check a node on which a task failed by a fault of the hardware, as it seems. Return whether a check begins.

    Under load if the node is empty; it comes first then, so that no task takes its place."""
    recent = node.check is not None and step.wall - node.check.at < AGAIN
    accepts = node.state is NodeState.READY and not is_namespace(frozenset(node.runtimes))
    if recent or not accepts or _job_of(step, node.name) is not None:
        return False
    _begin(step, MAX_PRIORITY, node, 0 if node.live else 1)
    return True


def _passes(step: Step, placement: Placement) -> bool:
    run, node = step.cluster.jobs.get(placement.job), step.cluster.nodes.get(placement.node)
    component = None if run is None else run.components.get(placement.component)
    if component is None or node is None:
        return True  # a plan that cannot be carried out is contained there
    level = component.spec.check
    if level is None or any(task.node == node.name for task in component.tasks.values()):
        return True
    return node.check is not None and step.wall - node.check.at < RECENT and _is_good(node.check, level)


def _is_good(check: NodeCheck, level: int) -> bool:
    """Return whether a check lets tasks start. Devices that are at fault get none anyway."""
    verdict = check.verdict
    return check.level >= level and (verdict.state == "good" or (verdict.state == "bad" and bool(verdict.devices)))


def _hold(step: Step, placement: Placement) -> None:
    run, node = step.cluster.jobs[placement.job], step.cluster.nodes[placement.node]
    component = run.components[placement.component]
    assert component.spec.check is not None
    if _job_of(step, node.name) is not None:
        component.checking = {**component.checking, node.name: None}
    elif component.spec.check and node.launches:
        _look_again(step, run, component, node.name, BUSY)
    else:
        _begin(step, run.job.priority, node, component.spec.check)
        component.checking = {**component.checking, node.name: None}
    step.changes.plan = True  # in the next round: other nodes may do, and the check is a job
    step.touch_job(run)


def _begin(step: Step, priority: int, node: NodeRun, level: int) -> None:
    """Submit the job that checks a node, as one of Grass itself."""
    name = f"check-of-{node.name}"[:MAX_NAME].rstrip("-._")
    if name in step.cluster.live:  # of another node with a long name, or a user's
        name = f"check-{step.random.getrandbits(32):08x}"
    request = ProbeRequest("look", node.address or "127.0.0.1", len(node.gpus), not node.live)
    requests = [encode(request), *([encode(ProbeRequest("load"))] if level else [])]
    resources = Resources()
    if level:
        gpus = sum(each.present and not each.busy and not each.quarantine for each in node.devices.values())
        resources = Resources(cpu=node.total.cpu, gpu=gpus * DEVICE)
    command = ("/bin/sh", "-c", _RUN, "check", step.limits.probe, *requests)
    task = Component("n0", command, resources=resources, checks=node.name)
    job = Job(name, {"n0": task}, ("n0",), timeout=_MOST_SECONDS, priority=priority, ending=Ending(ttl=_KEPT))
    job_id = f"{name}-{step.random.getrandbits(32):08x}"
    check = JobRun.new(job, first_record(job, job_id=job_id, user=GRASS, now=step.wall))
    check.listed = None
    step.changes.submitted[job_id] = check
    jobs.admit(step, check)


def _job_of(step: Step, node: str) -> JobRun | None:
    """Return the job of Grass that checks a node now."""
    for job_id in step.cluster.queue:
        run = step.cluster.jobs[job_id]
        if run.user == GRASS and any(part.spec.checks == node for part in run.components.values()):
            return run if run.outcome is None else None
    return None


def _checked_now(component: ComponentRun) -> list[str]:
    return [name for name, until in component.checking.items() if until is None]


def _waiting_for(step: Step, node: str) -> Iterator[tuple[JobRun, ComponentRun]]:
    for job_id in list(step.cluster.queue):
        run = step.cluster.jobs[job_id]
        for component in run.components.values():
            if node in component.checking:
                yield run, component


def _stop_unwanted(step: Step, node: str) -> None:
    check = _job_of(step, node)
    if check is not None and not any(part.checking[node] is None for _, part in _waiting_for(step, node)):
        jobs.stop(step, check, GRASS, 0.0)


def _look_again(step: Step, run: JobRun, component: ComponentRun, node: str, seconds: float) -> None:
    component.checking = {**component.checking, node: step.now + seconds}
    step.agenda.add(step.now + seconds, "setback", run.id, component.spec.name)
    step.changes.plan = True
    step.touch_job(run)


def _forget(step: Step, run: JobRun, component: ComponentRun, nodes: Iterable[str]) -> None:
    gone = set(nodes)
    if gone:
        component.checking = {name: until for name, until in component.checking.items() if name not in gone}
        step.changes.plan = True
        step.touch_job(run)
