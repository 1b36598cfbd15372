"""The life of a job: admitted, running, stopping, ended, removed. Pure: all effects are in the step.

Used by this package.
"""

from __future__ import annotations

from grass.model.event_kind import EventKind
from grass.model.job import AfterState, Component, Condition
from grass.model.lifecycle import JobState, TaskState, check_job
from grass.model.reasons import Reason, ReasonCode
from grass.wire.job_record import Outcome
from master.agent import (
    job_dependencies,
    job_end,
    job_restart,
    limit_notices,
    notifications,
    queued_jobs,
    scaling,
    stopped_tasks,
    task_dependencies,
)
from master.agent.allocation import release
from master.agent.component_run import ComponentRun
from master.agent.desired import desired_attempt
from master.agent.failures import first_failed, why_component_failed
from master.agent.state import JobRun
from master.agent.step import Step


def admit(step: Step, run: JobRun) -> None:
    """Add an accepted job to the queue. A rebuild of the memory may have done so before its ticket was taken."""
    cluster = step.cluster
    if not run.state.ended:
        step.changes.admitted[run.id] = run
    if run.id in cluster.jobs:
        return
    cluster.jobs[run.id] = run
    cluster.live[run.name] = run.id
    cluster.latest[run.name] = run.id
    cluster.queue[run.id] = None
    cluster.positions += 1
    run.position = cluster.positions
    step.changes.plan = True
    step.touch_job(run)
    job_dependencies.admitted(step, run)
    if run.starts is not None:
        queued_jobs.await_begin(step, run)


def begin(step: Step, run: JobRun) -> None:
    """Move the job to RUNNING: its first task was assigned."""
    move(step, run, JobState.RUNNING)
    run.reason = None
    run.started = step.wall if run.started is None else run.started
    job_end.start_clock(step, run)
    step.event(EventKind.JOB_RUNNING, f"job {run.name}: running", job=run.name, run=run.id)


def stop(step: Step, run: JobRun, user: str, grace: float | None) -> None:
    """Stop the job for ``user``. ``grace``: seconds instead of each component's own; None: the component's own."""
    if run.state.ended:
        return
    run.stop_grace = grace
    reason = Reason(ReasonCode.USER_STOPPED, f"stopped by {user}")
    if run.state is JobState.STOPPING:
        if job_restart.wanted(run):  # it must not start again; any other outcome does not change
            run.outcome, run.reason = Outcome(JobState.STOPPED, reason, None), reason
            step.touch_job(run)
        # a repeated stop may have a shorter grace: send that to the nodes
        _stop_tasks(step, run)
        return
    finish(step, run, JobState.STOPPED, reason, None)


def finish(step: Step, run: JobRun, state: JobState, reason: Reason | None, exit_code: int | None) -> None:
    """Set the job's outcome: start nothing new, stop running tasks, and end the job once they have ended."""
    if run.state.ended or run.outcome is not None:
        return
    run.outcome = Outcome(state, reason, exit_code)
    scaling.cut_off(step, run)
    for component in run.components.values():
        _cancel_pending(step, run, component)
    if run.on_node:
        move(step, run, JobState.STOPPING)
        run.reason = job_end.waiting_reason(run)
        if not job_end.lets_tasks_go_on(run):
            _stop_tasks(step, run)
        elif not job_restart.wanted(run):
            job_end.start_ttl(step, run)
    else:
        _end(step, run)


def out_of_time(step: Step, run: JobRun, reason: Reason) -> None:
    """Fail a job that exceeded a time limit. Tasks that went on after its result was known are stopped."""
    if run.outcome is not None and job_end.lets_tasks_go_on(run):
        _stop_tasks(step, run)
    finish(step, run, JobState.FAILED, reason, 124)


def out_of_keeping(step: Step, run: JobRun) -> None:
    """Remove a job whose ``ttl`` is over. Tasks that went on after its result was known are stopped first."""
    if not run.state.ended:
        _stop_tasks(step, run)
    remove(step, run)


def settle(step: Step, run: JobRun) -> None:
    """End the job, or begin to stop it, if what happened in this step calls for it."""
    if run.state.ended:
        return
    if run.outcome is not None:
        if not run.on_node:
            _end(step, run)
        return
    if _settle_dependencies(step, run):
        return
    if run.state is JobState.SUSPENDED or run.halting is not None:
        return  # what tasks did until then counts once the job goes on
    failed = next((part for part in run.components.values() if job_end.failed(run, part)), None)
    needed = [run.components[name] for name in run.job.success]
    if all(job_end.enough(run, part) for part in needed):
        finish(step, run, JobState.SUCCEEDED, None, 0)
    elif failed is not None and (job_end.failed_enough(run) or _all_ended(needed) or _blocked_for_ever(run)):
        _, task = first_failed(failed)
        code = task.exit_code if task.exit_code is not None else 128 + (task.signal or 0)
        finish(step, run, JobState.FAILED, why_component_failed(failed), code)
    elif any(part.counts[TaskState.STOPPED] for part in needed) and (_all_ended(needed) or _blocked_for_ever(run)):
        reason = stopped_tasks.reason(needed)
        state = JobState.STOPPED if reason.code is ReasonCode.USER_STOPPED else JobState.FAILED
        if reason.code is ReasonCode.TIMEOUT:
            finish(step, run, state, limit_notices.of_job(run), 124)
        else:
            finish(step, run, state, reason, None)


def unmet(run: JobRun, component: Component) -> Reason | None:
    """Return which of its dependencies a component still waits for, or None."""
    for name, condition in component.depends_on.items():
        other = run.components[name]
        if job_end.enough(run, other):
            continue
        need = other.spec.min or other.size - len(other.joining) - job_end.done_without(run, other)
        have = other.counts[TaskState.SUCCEEDED]
        if condition is Condition.RUNNING:
            have += other.counts[TaskState.RUNNING]
        elif condition is Condition.READY:
            have += other.ready
        if have < need:
            message = f"waits until {name} is {condition.value}: {have} of {need}"
            return Reason(ReasonCode.DEPENDS_ON, message, {"component": name, "condition": condition.value})
    return None


def remove(step: Step, run: JobRun) -> None:
    """Remove an ended job and its records. The loop deletes its logs. A job that is active is removed when it ends."""
    if not run.state.ended:
        run.delete = True
        step.touch_job(run)
        return
    for follower in job_dependencies.followers(step, run):
        _settle_dependencies(step, follower)  # while the end of this job is still known
    name, latest = run.name, step.cluster.latest
    del step.cluster.jobs[run.id]
    if latest.get(name) == run.id:
        del latest[name]
        before = [other.id for other in step.cluster.jobs.values() if other.name == name]
        step.changes.newest_deleted[name] = run.id if before else None
        if before:
            latest[name] = before[-1]
    step.changes.removed[run.id] = run


def _settle_dependencies(step: Step, run: JobRun) -> bool:
    """Note what the job need not wait for any more. Return True if it can never start, and therefore ended: it failed,
    or, if it was to follow a failure that did not come, it was stopped."""
    unmet = job_dependencies.note_met(step, run) if run.job.after else None
    if unmet is not None:
        state = JobState.STOPPED if unmet.wanted is AfterState.FAILED else JobState.FAILED
        finish(step, run, state, unmet.reason, None)
    return unmet is not None


def _cancel_pending(step: Step, run: JobRun, component: ComponentRun) -> None:
    pending = component.counts[TaskState.PENDING]
    for index, task in component.tasks.items():
        if task.state in (TaskState.PENDING, TaskState.LOST):
            if task.state is TaskState.PENDING:
                pending -= 1
            elif task.node in step.cluster.nodes:
                step.changes.of_node(task.node).remove_attempt(run.attempt(component, index, task))
                release(step, run, component, index, task)
            component.move(task, TaskState.STOPPED)
            task.reason = Reason(ReasonCode.JOB_ENDED, "the job ended before it could start again")
            step.changes.tasks[run.id, component.spec.name, index] = task
    # tasks that were never assigned have no record; only the job's counts say that they were stopped
    component.counts[TaskState.PENDING] -= pending
    component.counts[TaskState.STOPPED] += pending
    component.start_none()
    component.backoff = 0
    component.reason = None


def _stop_tasks(step: Step, run: JobRun) -> None:
    for component in run.components.values():
        grace = component.spec.grace if run.stop_grace is None else run.stop_grace
        for index, task in component.tasks.items():
            if task.state.on_node and task.node is not None:
                key = run.attempt(component, index, task)
                step.changes.of_node(task.node).put(key, desired_attempt(task, grace))
                step.touch_launch(step.cluster.nodes[task.node], run.launch(component))


def _end(step: Step, run: JobRun) -> None:
    assert run.outcome is not None
    state, reason, exit_code = run.outcome
    leave_nodes(step, run)
    if job_restart.wanted(run):
        if run.state is not JobState.QUEUED:  # one that failed while it was suspended is queued already
            move(step, run, JobState.QUEUED)
        job_restart.start_again(step, run)
        return
    move(step, run, state)
    run.reason = reason
    run.ended, run.exit_code = step.wall, exit_code
    job_end.note_end(step, run)
    typical = {name: part.typical for name, part in run.components.items()}
    step.cluster.durations.note_end(run.user, run.name, run.ended, typical)
    step.cluster.cache.forget_job(run.id, run.components)
    step.cluster.set_aside.forget(run.id)
    task_dependencies.note_undone(run)
    job_dependencies.forget(step.cluster, run)
    for part in run.components.values():
        part.tasks.clear()  # the store keeps their records; the tasks of a thousand ended arrays would fill the memory
    step.cluster.queue.pop(run.id, None)
    step.cluster.live.pop(run.name, None)
    step.changes.names_free.append(run.name)
    step.changes.plan = True
    job_dependencies.mark_followers(step, run)
    text = f"job {run.name}: {state.value.lower()}" + (f"; {reason.message}" if reason else "")
    kind = EventKind(f"job-{state.value.lower()}")
    step.event(kind, text, job=run.name, run=run.id)
    notifications.job_ended(step, run, kind, text)
    if (command := notifications.submit_command(step, run)) is not None:
        admit(step, command)
    if run.delete:
        remove(step, run)


def leave_nodes(step: Step, run: JobRun) -> None:
    """Remove what the nodes keep for the job beside its attempts."""
    for name in run.nodes:
        change = step.changes.of_node(name)
        launches = step.cluster.nodes[name].launches
        for component in run.components.values():
            launches.pop(run.launch(component), None)
            change.drop_launch(run.launch(component))
        change.addresses.pop(run.id, None)
    run.nodes.clear()
    for component in run.components.values():
        component.informed = frozenset()


def move(step: Step, run: JobRun, state: JobState) -> None:
    """Change the state of a job. An illegal transition is an internal error."""
    check_job(run.state, state)
    run.state = state
    step.touch_job(run)


def _all_ended(components: list[ComponentRun]) -> bool:
    return all(sum(count for state, count in part.counts.items() if state.ended) == part.size for part in components)


def _blocked_for_ever(run: JobRun) -> bool:
    """Return whether the job is deadlocked: no task runs or will restart, and each pending component waits."""
    if run.on_node or any(part.backoff or part.counts[TaskState.LOST] for part in run.components.values()):
        return False
    waiting = [part for part in run.components.values() if part.counts[TaskState.PENDING]]
    return all(unmet(run, part.spec) is not None for part in waiting)
