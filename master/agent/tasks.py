"""The life of a task: what nodes report about its attempts, and what follows from that. Pure."""

from __future__ import annotations

import signal as signals

from grass.errors import UndecodableError
from grass.model.exhaustive import assert_never
from grass.model.job import EXIT_DO_NOT_RESTART, EXIT_STOP_JOB, RestartOn
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.wire.keys import AttemptKey
from grass.wire.task_events import Ended, Ready, Started, TaskEvent, Waiting
from grass.wire.task_record import TaskRecord
from master.agent import jobs
from master.agent.addresses import publish_addresses
from master.agent.allocation import release
from master.agent.state import ComponentRun, JobRun, NodeRun
from master.agent.step import Step

MOST_BACKOFF = 60.0
"""Seconds before a restart, at most."""
_NO_RESTART = frozenset({ReasonCode.CANNOT_START})
_NOT_ITS_FAULT = frozenset({ReasonCode.NODE_REBOOTED, ReasonCode.PORT_TAKEN})


def on_events(step: Step, node: NodeRun, events: tuple[TaskEvent, ...]) -> list[str]:
    """Take the events. Ignore those of attempts that are not current: they were taken before, or were replaced.

    Return a problem for each event whose key is malformed."""
    problems = []
    for event in events:
        try:
            key = AttemptKey.parse(event.key)
        except UndecodableError as error:
            problems.append(str(error))
            continue
        run = step.cluster.jobs.get(key.job_id)
        component = run.components.get(key.component) if run else None
        task = component.tasks.get(key.index) if component else None
        if run is None or component is None or task is None or task.attempt != key.attempt or task.node != node.name:
            step.changes.of_node(node.name).take(event.key)
            continue
        match event:
            case Started():
                _started(step, run, component, task, event)
            case Waiting():
                delayed = task.state is TaskState.ASSIGNED or (task.state is TaskState.RUNNING and not task.ready)
                stuck = event.reason is not None and event.reason.code is ReasonCode.STUCK
                if delayed or (stuck and task.state.on_node):
                    task.reason = event.reason
            case Ready():
                _ready(step, component, task)
            case Ended():
                _ended(step, node, run, component, key.index, task, event)
            case _:
                assert_never(event)
        step.changes.tasks[run.id, component.spec.name, key.index] = task
        step.touch_job(run)
    return problems


def lose(step: Step, node: NodeRun, reason: Reason) -> None:
    """Make the tasks of a node LOST, to be replaced elsewhere. Until then they stay desired there: it may come back."""
    for run, component, index, task in _here(step, node):
        if task.state.on_node:
            _lose_one(step, run, component, index, task, reason)
            step.touch_job(run)


def adopt(step: Step, node: NodeRun) -> None:
    """Take back the tasks of a LOST node that came back, if they were not replaced. It reports those that ended."""
    for run, component, index, task in _here(step, node):
        if task.state is TaskState.LOST:
            component.move(task, TaskState.ASSIGNED if task.started is None else TaskState.RUNNING)
            component.take_back(index)
            task.reason = task.preempted
            step.changes.tasks[run.id, component.spec.name, index] = task
            step.touch_job(run)


def give_up(step: Step, node: NodeRun) -> None:
    """Release the LOST tasks of a node that is being removed. Its attempts are not wanted any more."""
    for run, component, index, task in _here(step, node):
        if task.state is TaskState.LOST:
            release(step, run, component, index, task)
            component.move(task, TaskState.PENDING)
            step.changes.tasks[run.id, component.spec.name, index] = task
            step.touch_job(run)


def _here(step: Step, node: NodeRun) -> list[tuple[JobRun, ComponentRun, int, TaskRecord]]:
    found = []
    for key, launch in node.launches.items():
        run = step.cluster.jobs[key.job_id]
        found += [(run, run.components[key.component], index, task) for index, task in launch.tasks.items()]
    return found


def restart_due(step: Step, run: JobRun, component: ComponentRun, index: int) -> None:
    """Let a task start again after its backoff."""
    task = component.tasks[index]
    if run.outcome is not None or task.state is not TaskState.PENDING or task.not_before is None:
        return
    task.not_before = None
    component.backoff -= 1
    component.put_back(index)
    step.changes.plan = True
    step.changes.tasks[run.id, component.spec.name, index] = task
    step.touch_job(run)


def _started(step: Step, run: JobRun, component: ComponentRun, task: TaskRecord, event: Started) -> None:
    if task.state is not TaskState.ASSIGNED:
        return
    component.move(task, TaskState.RUNNING)
    task.reason = task.preempted
    task.started, task.pid = event.at, event.pid
    if component.spec.timeout is not None and task.node is not None:
        launch = step.cluster.nodes[task.node].launches[run.launch(component)]
        launch.until = max(launch.until, step.now + component.spec.timeout + component.spec.grace)
    if component.spec.ready is None:
        _count_ready(component, task)
    step.changes.plan = step.changes.plan or len(run.components) > 1


def _ready(step: Step, component: ComponentRun, task: TaskRecord) -> None:
    if task.state.on_node:
        _count_ready(component, task)
        task.reason = task.preempted
        step.changes.plan = True


def _count_ready(component: ComponentRun, task: TaskRecord) -> None:
    if not task.ready:
        task.ready = True
        component.ready += 1


def _ended(
    step: Step, node: NodeRun, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, event: Ended
) -> None:
    step.changes.of_node(node.name).take(event.key)
    if task.state is TaskState.LOST and run.outcome is None:
        # it ended while its node was LOST, and was not replaced yet
        component.move(task, TaskState.RUNNING)
        component.take_back(index)
    elif not task.state.on_node:
        return
    preempted = task.preempted if event.stopped else None
    release(step, run, component, index, task)
    started = event.started or task.started
    if started is not None and preempted is None:
        component.learn(max(0.0, event.at - started))
    task.started, task.ended, task.sizes = started, event.at, event.sizes
    task.exit_code, task.signal, task.reason = event.code, event.signal, event.reason
    if preempted is not None and run.outcome is None:
        task.reason = preempted
        _requeue(step, run, component, index, task, 0.0)
    else:
        _apply_end(step, run, component, index, task)
    step.changes.plan = True
    if component.spec.ports:
        publish_addresses(step, run)


def _apply_end(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord) -> None:
    """Apply the end of an attempt to its task: first the meaning of exit codes, then the restart policy."""
    code = task.exit_code
    reason = task.reason.code if task.reason else None
    if run.outcome is not None:
        component.move(task, TaskState.STOPPED)
        task.reason = task.reason or _stopped_reason(run)
        return
    if reason in _NOT_ITS_FAULT:
        _requeue(step, run, component, index, task, 0.0)
        return
    policy = component.spec.restart
    failed = code != 0 or reason is not None
    wanted = policy.policy is RestartOn.ALWAYS or (failed and policy.policy is RestartOn.ON_FAILURE)
    allowed = policy.limit is None or task.restarts < policy.limit
    final = code in (EXIT_DO_NOT_RESTART, EXIT_STOP_JOB) or reason in _NO_RESTART
    if failed and task.reason is None:
        task.reason = _exit_reason(code, task.signal)
    if wanted and allowed and not final:
        task.restarts += 1
        run.restarts += 1
        wait = _backoff(policy.backoff, task.restarts)
        _requeue(step, run, component, index, task, wait)
        return
    component.move(task, TaskState.FAILED if failed else TaskState.SUCCEEDED)
    if code == EXIT_STOP_JOB:
        message = f"{component.spec.name}.{index} stopped the job: it ended with exit code {EXIT_STOP_JOB}"
        jobs.finish(step, run, JobState.FAILED, Reason(ReasonCode.STOP_CODE, message), code)


def _backoff(first: float, restarts: int) -> float:
    """Return the seconds before restart number ``restarts``. The exponent is bounded, because restarts may not be."""
    return min(MOST_BACKOFF, first * 2.0 ** min(restarts - 1, 64))


def _requeue(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, wait: float) -> None:
    component.move(task, TaskState.PENDING)
    if wait <= 0:
        component.put_back(index)
        return
    component.backoff += 1
    why = task.reason.message if task.reason else f"ended with exit code {task.exit_code}"
    task.reason = Reason(
        ReasonCode.BACKOFF, f"{why}; restarts in {wait:g} s (restart {task.restarts})", {"seconds": wait}
    )
    task.not_before = step.later(wait)
    step.agenda.add(task.not_before.at, "restart", run.id, component.spec.name, index)


def _lose_one(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, reason: Reason) -> None:
    assert task.node is not None
    component.move(task, TaskState.LOST)
    task.reason = reason
    step.changes.tasks[run.id, component.spec.name, index] = task
    if run.outcome is not None:
        step.changes.of_node(task.node).take(run.attempt(component, index, task))
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
        return Reason(ReasonCode.EXIT_UNKNOWN, "its process is gone, and its exit code is unknown")
    return Reason(ReasonCode.EXIT_CODE, f"ended with exit code {code}", {"code": code})


def _stopped_reason(run: JobRun) -> Reason:
    assert run.outcome is not None
    state, reason, _ = run.outcome
    return reason or Reason(ReasonCode.JOB_ENDED, f"the job has {state.value.lower()}")
