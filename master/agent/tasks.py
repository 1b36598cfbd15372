"""The life of a task: what nodes report about its attempts, and what follows from that. Pure.

Used by ``node_tickets``, ``nodes`` and ``reactor``.
"""

from __future__ import annotations

from dataclasses import replace

from grass.backoff import wait_after
from grass.errors import UndecodableError
from grass.model.amounts import show_memory
from grass.model.event_kind import EventKind
from grass.model.exhaustive import assert_never
from grass.model.job import EXIT_STOP_JOB
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Details, FailureClass, Reason, ReasonCode
from grass.wire.keys import AttemptKey
from grass.wire.task_events import Drained, Ended, Leaving, Located, Ready, Started, TaskEvent, Unclaimed, Waiting
from grass.wire.task_record import TaskRecord
from grass.wire.usage import TaskTotals
from master.agent import (
    checks_before,
    gangs,
    job_end,
    jobs,
    memory_growth,
    preemption,
    repairs,
    repeated_errors,
    scaling,
    setbacks,
    task_dependencies,
)
from master.agent.addresses import publish_addresses
from master.agent.allocation import release
from master.agent.component_run import ComponentRun
from master.agent.desired import desired_attempt
from master.agent.failures import classed, node_at_fault, why_component_failed, why_failed
from master.agent.node_run import NodeRun
from master.agent.state import JobRun
from master.agent.step import Step
from master.agent.stopped_tasks import is_stopped
from master.agent.task_restart import OF_KUBERNETES, Blamed, End, Next, what_follows

MOST_BACKOFF = 60.0
"""Seconds before a restart, at most."""
_UNMEASURED = TaskTotals(unmeasured=1)
MEMORY_EXCESS = 1.5
"""From so many times what a task asked for on, its job has a warning."""
INTENDED = frozenset(
    {
        *(ReasonCode.SUSPENDED, ReasonCode.RESTARTED, ReasonCode.REPLACED, ReasonCode.BELOW_MINIMUM),
        *(ReasonCode.RELEASED, ReasonCode.GANG_INCOMPLETE, ReasonCode.EVICTED),
    }
)
"""Reasons to withdraw an attempt for which it may end by itself."""
RESTARTS_TOLD = 8
"""Restarts of a task that are events. Of the later ones, those that are powers of two: there may be very many."""
_SHARE_AGAIN = 1.0
"""Seconds until a task is placed again whose node could not show it the share; soon the node says so itself."""


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
        if isinstance(event, Unclaimed):
            _unclaimed(step, node, key, event)
            continue
        run = step.cluster.jobs.get(key.job_id)
        component = run.components.get(key.component) if run else None
        task = component.tasks.get(key.index) if component else None
        if run is None or component is None or task is None or task.attempt != key.attempt or task.node != node.name:
            step.changes.of_node(node.name).remove_attempt(event.key)
            continue
        _take(step, node, run, component, key.index, task, event)
        step.changes.tasks[run.id, component.spec.name, key.index] = task
        step.touch_job(run)
    return problems


def _take(
    step: Step,
    node: NodeRun,
    run: JobRun,
    component: ComponentRun,
    index: int,
    task: TaskRecord,
    event: Started | Waiting | Ready | Ended | Drained | Located | Leaving,
) -> None:
    """Take an event of the current attempt of a task."""
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
        case Located(address=address):
            _located(step, run, task, address)
        case Leaving(reason=reason):
            _leaving(step, node, run, component, index, task, reason)
        case Drained():
            _drained(step, node, component, task, event)
        case Ended():
            _ended(step, node, run, component, index, task, event)
            if task.state.ended:
                task_dependencies.task_ended(step, run, index)
        case _:
            assert_never(event)


def _unclaimed(step: Step, node: NodeRun, key: AttemptKey, event: Unclaimed) -> None:
    """Say what became of an attempt that a restored store does not know. Its node stops it."""
    job, name = key.job_id.rpartition("-")[0], f"{key.component}.{key.index}"
    what = f"task {job}.{name}: attempt {key.attempt} began after the backup from which the master was restored; "
    if event.ended is None:
        what += "nothing desires it, and it is stopped"
    else:
        code = "an unknown exit code" if event.code is None else f"exit code {event.code}"
        what += f"it ended with {code}, which counts if its task gets to this attempt again"
    step.event(EventKind.TASK_UNCLAIMED, what, job=job, run=key.job_id, task=name, node=node.name)


def lose(step: Step, node: NodeRun, reason: Reason) -> None:
    """Make the tasks of a node LOST, to be replaced elsewhere. Until then they stay desired there: it may come back."""
    for run, component, index, task in _here(step, node):
        if task.state.on_node:
            _lose_one(step, run, component, index, task, reason)
            step.touch_job(run)
            repairs.lost(step, run, component, index, reason)


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
    task = component.tasks.get(index)
    if task is None or run.outcome is not None or task.state is not TaskState.PENDING or task.not_before is None:
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
    gangs.note_start(run, component)
    task.reason = task.preempted
    setbacks.forget(component, task.node or "")
    task.started, task.pid, task.prepared, task.software = event.at, event.pid, event.prepared, event.software
    if component.spec.timeout is not None and task.node is not None:
        launch = step.cluster.nodes[task.node].launches[run.launch(component)]
        launch.until = max(launch.until, step.now + component.spec.timeout + component.spec.grace)
    if component.spec.ready is None:
        _count_ready(component, task)
    step.changes.plan = step.changes.plan or len(run.components) > 1


def _located(step: Step, run: JobRun, task: TaskRecord, address: str) -> None:
    if task.state.on_node and task.address != address:
        task.address = address
        if any(part.spec.ports for part in run.components.values()):
            publish_addresses(step, run)


def _ready(step: Step, component: ComponentRun, task: TaskRecord) -> None:
    if task.state.on_node:
        _count_ready(component, task)
        task.reason = task.preempted
        step.changes.plan = True


def _leaving(
    step: Step, node: NodeRun, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, reason: Reason
) -> None:
    """Let the others of an elastic component go on without an attempt whose pod is being ended."""
    stays = task.state is TaskState.RUNNING and task.preempted is None and not task.released
    if not component.spec.elastic or run.outcome is not None or not stays:
        return
    machine = reason.details.get("machine", "")
    closed = node.closed_machine(machine)
    message = f"{reason.message}; machine {machine} takes no pods ({closed})" if closed else reason.message
    preemption.leave(step, run, component, index, Reason(reason.code, message, reason.details))


def _drained(step: Step, node: NodeRun, component: ComponentRun, task: TaskRecord, event: Drained) -> None:
    """Stop an attempt that left the membership, and that its framework has let go."""
    if task.state.on_node and (task.released or task.preempted is not None):
        step.changes.of_node(node.name).put(event.key, desired_attempt(task, component.spec.grace))


def _count_ready(component: ComponentRun, task: TaskRecord) -> None:
    if not task.ready:
        task.ready = True
        component.ready += 1


def _ended(
    step: Step, node: NodeRun, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, event: Ended
) -> None:
    step.changes.of_node(node.name).remove_attempt(event.key)
    if task.state is TaskState.LOST and run.outcome is None:
        # it ended while its node was LOST, and was not replaced yet
        component.move(task, TaskState.RUNNING)
        component.take_back(index)
    elif not task.state.on_node:
        return
    started = event.started or task.started
    if started is not None:
        _add_usage(run, task, event)
    preempted = task.preempted if _intended(component, task, event) else None
    stopped = task.preempted if is_stopped(task) else None
    at_fault = node_at_fault(node, task)
    release(step, run, component, index, task)
    if started is not None and preempted is None:
        component.learn(max(0.0, event.at - started))
    task.started, task.ended, task.sizes = started, event.at, event.sizes
    task.exit_code, task.signal, task.reason = event.code, event.signal, event.reason
    task.software = event.software or task.software
    task.log_gaps = event.log_gaps
    if task.released:
        scaling.released(step, run, component, index)
    elif stopped is not None and run.outcome is None:
        _end_stopped(component, task, stopped, by_itself=not event.stopped)
    elif preempted is not None and run.outcome is None:
        task.reason = classed(preempted)
        _requeue(step, run, component, index, task, _wait(step, run, component, task, preempted.code))
    else:
        _apply_end(step, run, component, index, task, event, at_fault=at_fault)
    if started is not None and task.state is TaskState.SUCCEEDED:
        component.sample(max(0.0, event.at - started))
    _let_go(step, node, component, task, event.key)
    _warn_of_memory(step, run, component, index, event)
    step.changes.plan = True
    if component.spec.ports:
        publish_addresses(step, run)


def _let_go(step: Step, node: NodeRun, component: ComponentRun, task: TaskRecord, key: str) -> None:
    """Have the node keep nothing of a task that does not start again."""
    if component.spec.keep is not None and (task.released or task.state.ended):
        step.changes.of_node(node.name).let_go_of(key)


def _warn_of_memory(step: Step, run: JobRun, component: ComponentRun, index: int, event: Ended) -> None:
    """Warn once of a component whose tasks use far more memory than they asked for: nodes are planned by what they
    ask for."""
    asked, used = component.spec.resources.memory, event.usage.memory if event.usage is not None else 0
    first = f"{component.spec.name}: its tasks use more memory than they ask for"
    if asked and used > MEMORY_EXCESS * asked and not any(each.startswith(first) for each in run.warnings):
        used_most = f"{component.spec.name}.{index} used {show_memory(used)} of {show_memory(asked)}"
        run.warnings = (*run.warnings, f"{first}, so a node may run out of it: {used_most}; raise `memory`")
        step.touch_job(run)


def _add_usage(run: JobRun, task: TaskRecord, event: Ended) -> None:
    """Add what the attempt used to the totals of its task and its job. Each end is taken once."""
    used = event.usage or _UNMEASURED
    task.usage = used if task.usage is None else task.usage.plus(used)
    run.usage = used if run.usage is None else run.usage.plus(used)


def _end_stopped(component: ComponentRun, task: TaskRecord, reason: Reason, *, by_itself: bool) -> None:
    """End a task that a user stops. It may have succeeded just before."""
    if by_itself and _ended_well(task):
        component.move(task, TaskState.SUCCEEDED)
    else:
        component.move(task, TaskState.STOPPED)
        task.reason = reason


def _ended_well(task: TaskRecord) -> bool:
    """Return whether the task succeeded. A share that was away meanwhile is said in its reason, and no failure: it may
    have repeated what it wrote."""
    return task.exit_code == 0 and (task.reason is None or task.reason.code is ReasonCode.SHARE)


def _intended(component: ComponentRun, task: TaskRecord, event: Ended) -> bool:
    """Return whether the attempt ended because it was told to leave, so that its exit code means nothing.

    A task with a framework leaves by itself, mostly with 0, when the membership says so. Without a framework, 0 means
    that its work was done at that moment.
    """
    reason, framework = task.preempted, component.spec.framework
    if reason is None or event.stopped:
        return reason is not None
    return reason.code in INTENDED and (event.code != 0 or (framework is not None and framework.kind.drains))


def _apply_end(
    step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, event: Ended, *, at_fault: bool
) -> None:
    """Apply the end of an attempt to its task."""
    if run.outcome is not None:
        went_on = job_end.lets_tasks_go_on(run) and _ended_well(task)
        component.move(task, TaskState.SUCCEEDED if went_on else TaskState.STOPPED)
        task.reason = task.reason or (None if went_on else _stopped_reason(run))
        return
    policy, node = component.spec.restart, task.node or ""
    failure: Reason | None = None
    if not _ended_well(task):
        failure = task.reason = classed(why_failed(step, component, task, event), at_fault=at_fault)
    nodes = repeated_errors.note(step, component, node, failure) if failure is not None else []
    blamed = Blamed(node, component.excused.get(index, ()), measured=at_fault)
    final = component.spec.instructs(task.exit_code)
    if failure is not None and _grows(step, run, component, index, task, failure):
        return
    end = End(task.exit_code, task.signal, failure, task.restarts, blamed, repeated=bool(nodes), final=final)
    match what_follows(policy, end):
        case Next.EXCUSED if failure is not None:
            _excuse(step, run, component, index, task, failure)
        case Next.BLAMED if failure is not None:
            _blame(step, run, component, index, task, failure, measured=at_fault)
        case Next.RESTART:
            _restart(step, run, component, index, task)
        case follows if failure is not None and nodes:
            together = repeated_errors.ends_job(run, component)
            if together or follows is Next.REPEATED or run.job.ending.restart.limit:
                task.reason = repeated_errors.told(failure, nodes)
            _end(step, run, component, index, task)
            if together and run.outcome is None and job_end.failed(run, component):
                code = task.exit_code if task.exit_code is not None else 128 + (task.signal or 0)
                jobs.finish(step, run, JobState.FAILED, why_component_failed(component), code)
        case _:
            _end(step, run, component, index, task)


def _grows(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, failure: Reason) -> bool:
    """Let a task start again with more memory, if its end calls for that. Return whether it does."""
    grown = memory_growth.grow(step, run, component, index, failure)
    if grown is None:
        return False
    task.reason = grown.reason
    if grown.again:
        _restart(step, run, component, index, task)
    return grown.again


def _restart(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord) -> None:
    """Let a task start again after its backoff, and count that."""
    task.restarts += 1
    run.restarts += 1
    wait = wait_after(task.restarts, component.spec.restart.backoff, MOST_BACKOFF)
    _requeue(step, run, component, index, task, wait)


def _excuse(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, failure: Reason) -> None:
    """Place a task again whose end was not its fault."""
    if failure.code is ReasonCode.UNRECORDED:
        _tell(step, run, component, index, EventKind.TASK_RESTARTS, f"{failure.message}; it runs again")
    began = task.started is not None
    _requeue(step, run, component, index, task, _wait(step, run, component, task, failure.code))
    if failure.code in OF_KUBERNETES and not began and gangs.incomplete(run, component):
        gangs.release(step, run, component, index, failure)


def _blame(
    step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, failure: Reason, *, measured: bool
) -> None:
    """Place a task again that a fault of its node ended: elsewhere, if it can run there. A device or a node whose fault
    was measured gets no tasks anyway."""
    node = task.node or ""
    component.excused = {**component.excused, index: (*component.excused.get(index, ()), node)}
    wait = 0.0 if measured else setbacks.blame(step, run, component, node)
    run_on = step.cluster.nodes.get(node)
    checked = "; the node is checked" if run_on is not None and checks_before.after_failure(step, run_on) else ""
    text = f"{failure.message}; taken as a fault of node {node}, so no restart is counted{checked}"
    task.reason = replace(failure, message=text)
    if not wait:
        _tell(step, run, component, index, EventKind.TASK_RESTARTS, f"{text}; it starts again")
    _requeue(step, run, component, index, task, wait)


def _end(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord) -> None:
    """End a task for good."""
    failed, code = not _ended_well(task), task.exit_code
    component.move(task, TaskState.FAILED if failed else TaskState.SUCCEEDED)
    if failed:
        _tell(step, run, component, index, EventKind.TASK_FAILED, task.reason.message if task.reason else "failed")
    if code == EXIT_STOP_JOB and component.spec.instructs(code):
        message = f"{component.spec.name}.{index} stopped the job: it ended with exit code {EXIT_STOP_JOB}"
        jobs.finish(
            step,
            run,
            JobState.FAILED,
            Reason(ReasonCode.STOP_CODE, message, {"failure": FailureClass.USER_ERROR}),
            code,
        )


def _wait(step: Step, run: JobRun, component: ComponentRun, task: TaskRecord, reason: ReasonCode) -> float:
    """Return the seconds until a task is placed again that ended for this reason, which is not its fault."""
    if reason in OF_KUBERNETES:
        return setbacks.note(step, run, component, task.node or "", began=task.started is not None)
    return _SHARE_AGAIN if reason is ReasonCode.SHARE else 0.0


def _requeue(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, wait: float) -> None:
    component.move(task, TaskState.PENDING)
    if wait <= 0:
        component.put_back(index)
        return
    component.backoff += 1
    why = task.reason.message if task.reason else f"ended with exit code {task.exit_code}"
    number = f" (restart {task.restarts})" if task.restarts else ""
    text = f"{why}; restarts in {wait:g} s{number}"
    details = Details(seconds=wait, cause=task.reason)
    if task.reason is not None and task.reason.failure is not None:
        details["failure"] = task.reason.failure
    task.reason = Reason(ReasonCode.BACKOFF, text, details)
    if task.attempt <= RESTARTS_TOLD or task.attempt & (task.attempt - 1) == 0:
        _tell(step, run, component, index, EventKind.TASK_RESTARTS, text)
    task.not_before = step.later(wait)
    step.agenda.add(task.not_before.at, "restart", run.id, component.spec.name, index)


def _lose_one(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord, reason: Reason) -> None:
    assert task.node is not None
    leaves = run.outcome is None and task.preempted is not None and task.preempted.code in INTENDED
    if leaves or task.released:
        _lose_leaving(step, run, component, index, task)
        return
    component.move(task, TaskState.LOST)
    stopped = is_stopped(task)
    task.reason = task.preempted if stopped else classed(reason)
    step.changes.tasks[run.id, component.spec.name, index] = task
    if run.outcome is not None or stopped:
        step.changes.of_node(task.node).remove_attempt(run.attempt(component, index, task))
        release(step, run, component, index, task)
        component.move(task, TaskState.STOPPED)
        return
    component.put_back(index)
    step.changes.plan = True


def _lose_leaving(step: Step, run: JobRun, component: ComponentRun, index: int, task: TaskRecord) -> None:
    """Give up an attempt that was to leave anyway: nobody waits for its node to come back with it."""
    assert task.node is not None
    step.changes.of_node(task.node).remove_attempt(run.attempt(component, index, task))
    release(step, run, component, index, task)
    step.changes.tasks[run.id, component.spec.name, index] = task
    if task.released:
        scaling.released(step, run, component, index)
    else:
        _requeue(step, run, component, index, task, 0.0)
    step.changes.plan = True


def _tell(step: Step, run: JobRun, component: ComponentRun, index: int, kind: EventKind, text: str) -> None:
    name = f"{component.spec.name}.{index}"
    step.event(kind, f"task {run.name}.{name}: {text}", job=run.name, run=run.id, task=name)


def _stopped_reason(run: JobRun) -> Reason:
    assert run.outcome is not None
    state, reason, _ = run.outcome
    return reason or Reason(ReasonCode.JOB_ENDED, f"the job has {state.value.lower()}")
