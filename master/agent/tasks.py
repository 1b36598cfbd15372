"""The life of a task: what a node reports about its attempts, and what follows from it. Pure."""

from __future__ import annotations

import signal as signals
from typing import Any

from grass.model.job import EXIT_DO_NOT_RESTART, EXIT_STOP_JOB, RestartOn
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason, ReasonCode
from master.agent import jobs
from master.agent.addresses import publish_addresses
from master.agent.booking import release
from master.agent.state import ComponentRun, JobRun, NodeRun, TaskRun, attempt_key, launch_key, parse_attempt_key
from master.agent.step import Step

MOST_BACKOFF = 60.0
_NO_RESTART = frozenset({ReasonCode.CANNOT_START.value})
_NOT_ITS_FAULT = frozenset({ReasonCode.NODE_REBOOTED.value, ReasonCode.PORT_TAKEN.value})


def on_events(step: Step, node: NodeRun, events: list[dict[str, Any]]) -> None:
    """Take each event once: one of an attempt that is not the task's current one was taken before, or is of no use."""
    for event in events:
        job_id, component_name, index, attempt = parse_attempt_key(event["key"])
        run = step.cluster.jobs.get(job_id)
        component = run.components.get(component_name) if run else None
        task = component.tasks.get(index) if component else None
        if run is None or component is None or task is None or task.attempt != attempt or task.node != node.name:
            step.changes.order(node.name).take(event["key"])
            continue
        match event["event"]:
            case "started":
                _started(step, run, component, task, event)
            case "waiting":
                held_up = task.state is TaskState.ASSIGNED or (task.state is TaskState.RUNNING and not task.ready)
                stuck = event["reason"] is not None and event["reason"]["code"] == ReasonCode.STUCK.value
                if held_up or (stuck and task.state.on_node):
                    task.reason = event["reason"]
            case "ready":
                _ready(step, component, task)
            case "ended":
                _ended(step, node, run, component, index, task, event)
        step.changes.tasks[job_id, component_name, index] = task
        step.touch_job(run)


def lose(step: Step, node: NodeRun, reason: Reason) -> None:
    """The node is LOST: its tasks are replaced elsewhere. Their desired entries stay until then: it may come back."""
    for run, component, index, task in _here(step, node):
        if task.state.on_node:
            _lose_one(step, run, component, index, task, reason)
            step.touch_job(run)


def adopt(step: Step, node: NodeRun) -> None:
    """A node that was LOST is back: what was not replaced is ours again. What ended meanwhile, the node reports."""
    for run, component, index, task in _here(step, node):
        if task.state is TaskState.LOST:
            component.move(task, TaskState.ASSIGNED if task.started is None else TaskState.RUNNING)
            component.take_back(index)
            task.reason = task.vacate
            step.changes.tasks[run.id, component.spec.name, index] = task
            step.touch_job(run)


def give_up(step: Step, node: NodeRun) -> None:
    """The node is LOST and will not be waited for: what it held is free, its attempts are not wanted any more."""
    for run, component, index, task in _here(step, node):
        if task.state is TaskState.LOST:
            release(step, run, component, index, task)
            component.move(task, TaskState.PENDING)
            step.changes.tasks[run.id, component.spec.name, index] = task
            step.touch_job(run)


def _here(step: Step, node: NodeRun) -> list[tuple[JobRun, ComponentRun, int, TaskRun]]:
    found = []
    for key, launch in node.launches.items():
        job_id, _, name = key.rpartition("/")
        run = step.cluster.jobs[job_id]
        found += [(run, run.components[name], index, task) for index, task in launch.tasks.items()]
    return found


def restart_due(step: Step, run: JobRun, component: ComponentRun, index: int) -> None:
    """The backoff of a task is over: it may be placed again."""
    task = component.tasks[index]
    if run.outcome is not None or task.state is not TaskState.PENDING or task.not_before is None:
        return
    task.not_before = None
    component.backoff -= 1
    component.put_back(index)
    step.changes.plan = True
    step.changes.tasks[run.id, component.spec.name, index] = task
    step.touch_job(run)


def _started(step: Step, run: JobRun, component: ComponentRun, task: TaskRun, event: dict[str, Any]) -> None:
    if task.state not in (TaskState.ASSIGNED, TaskState.STARTING):
        return
    component.move(task, TaskState.RUNNING)
    task.reason = task.vacate
    task.started, task.pid = event["at"], event.get("pid")
    if component.spec.timeout is not None and task.node is not None:
        launch = step.cluster.nodes[task.node].launches[launch_key(run.id, component.spec.name)]
        launch.until = max(launch.until, step.now + component.spec.timeout + component.spec.grace)
    if component.spec.ready is None:
        _count_ready(component, task)
    step.changes.plan = step.changes.plan or len(run.components) > 1


def _ready(step: Step, component: ComponentRun, task: TaskRun) -> None:
    if task.state.on_node:
        _count_ready(component, task)
        task.reason = task.vacate
        step.changes.plan = True


def _count_ready(component: ComponentRun, task: TaskRun) -> None:
    if not task.ready:
        task.ready = True
        component.ready += 1


def _ended(
    step: Step, node: NodeRun, run: JobRun, component: ComponentRun, index: int, task: TaskRun, event: dict[str, Any]
) -> None:
    step.changes.order(node.name).take(event["key"])
    if task.state is TaskState.LOST and run.outcome is None:
        # it ran to its end while its node was away, and was not replaced yet
        component.move(task, TaskState.RUNNING)
        component.take_back(index)
    elif not task.state.on_node:
        return
    vacated = task.vacate if event.get("stopped") else None
    release(step, run, component, index, task)
    started = event.get("started") or task.started
    if started is not None and vacated is None:
        component.learn(max(0.0, event["at"] - started))
    task.started, task.ended, task.sizes = started, event["at"], event.get("sizes")
    task.exit_code, task.signal, task.reason = event.get("code"), event.get("signal"), event.get("reason")
    if vacated is not None and run.outcome is None:
        task.reason = vacated
        _again(step, run, component, index, task, 0.0)
    else:
        _judge(step, run, component, index, task)
    step.changes.plan = True
    if component.spec.ports:
        publish_addresses(step, run)


def _judge(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRun) -> None:
    """What the end of an attempt means for its task: the contract of exit codes, then the restart policy."""
    code = task.exit_code
    reason = task.reason["code"] if task.reason else None
    if run.outcome is not None:
        component.move(task, TaskState.STOPPED)
        task.reason = task.reason or _stopped_reason(run).to_wire()
        return
    if reason in _NOT_ITS_FAULT:
        _again(step, run, component, index, task, 0.0)
        return
    policy = component.spec.restart
    failed = code != 0 or reason is not None
    wanted = policy.policy is RestartOn.ALWAYS or (failed and policy.policy is RestartOn.ON_FAILURE)
    allowed = policy.limit is None or task.restarts < policy.limit
    final = code in (EXIT_DO_NOT_RESTART, EXIT_STOP_JOB) or reason in _NO_RESTART
    if failed and task.reason is None:
        task.reason = _exit_reason(code, task.signal).to_wire()
    if wanted and allowed and not final:
        task.restarts += 1
        run.view["restarts"] += 1
        wait = _backoff(policy.backoff, task.restarts)
        _again(step, run, component, index, task, wait)
        return
    component.move(task, TaskState.FAILED if failed else TaskState.SUCCEEDED)
    if code == EXIT_STOP_JOB:
        message = f"{component.spec.name}.{index} ended with {EXIT_STOP_JOB}: stop the job"
        jobs.finish(step, run, JobState.FAILED, Reason(ReasonCode.STOP_CODE, message), code)


def _backoff(first: float, restarts: int) -> float:
    """Seconds before restart number ``restarts``; the exponent is bounded, restarts may have no limit."""
    return min(MOST_BACKOFF, first * 2.0 ** min(restarts - 1, 64))


def _again(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRun, wait: float) -> None:
    component.move(task, TaskState.PENDING)
    if wait <= 0:
        component.put_back(index)
        return
    component.backoff += 1
    why = task.reason["message"] if task.reason else f"ended with {task.exit_code}"
    task.reason = Reason(
        ReasonCode.BACKOFF, f"{why}; starts again in {wait:g} s (restart {task.restarts})", {"seconds": wait}
    ).to_wire()
    task.not_before = step.later(wait)
    step.agenda.add(task.not_before[0], "restart", run.id, component.spec.name, index)


def _lose_one(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRun, reason: Reason) -> None:
    assert task.node is not None
    component.move(task, TaskState.LOST)
    task.reason = reason.to_wire()
    step.changes.tasks[run.id, component.spec.name, index] = task
    if run.outcome is not None:
        step.changes.order(task.node).take(attempt_key(run.id, component.spec.name, index, task.attempt))
        release(step, run, component, index, task)
        component.move(task, TaskState.STOPPED)
        return
    component.put_back(index)
    step.changes.plan = True


def _exit_reason(code: int | None, signal: int | None) -> Reason:
    if signal is not None:
        try:
            name = signals.Signals(signal).name
        except ValueError:
            name = str(signal)
        return Reason(ReasonCode.SIGNAL, f"ended by signal {name}", {"signal": signal})
    if code is None:
        return Reason(ReasonCode.EXIT_UNKNOWN, "its process is gone and nothing saw how it ended")
    return Reason(ReasonCode.EXIT_CODE, f"ended with exit code {code}", {"code": code})


def _stopped_reason(run: JobRun) -> Reason:
    assert run.outcome is not None
    state, reason, _ = run.outcome
    return reason or Reason(ReasonCode.JOB_ENDED, f"the job has {state.value.lower()}")
