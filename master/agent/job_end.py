"""When a job has its result, and what its ``Ending`` asks for around the end. Pure.

Called by ``jobs``, ``tasks``, ``planner_snapshot`` and ``reactor``. The restart of a whole job is in ``job_restart``.
"""

from __future__ import annotations

from grass.model.ending import Clean, Enough
from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason, ReasonCode
from master.agent.agenda import Agenda
from master.agent.component_run import ComponentRun
from master.agent.state import JobRun
from master.agent.step import Step

LOGS_KEPT = 60.0
"""Seconds from the end of a job with ``clean: all`` until its logs are removed: whoever follows them reads the rest."""


def enough(run: JobRun, part: ComponentRun) -> bool:
    """Return whether so many tasks of the component have succeeded as the job needs."""
    match _rule(run, part):
        case Enough.ALL:
            return _succeeded(part) == part.size - len(part.joining) - given_up(part)
        case Enough.ANY:
            return part.counts[TaskState.SUCCEEDED] > 0
        case Enough.INDEX0:
            return _first(part) is TaskState.SUCCEEDED
        case rule:
            assert_never(rule)


def failed(run: JobRun, part: ComponentRun) -> bool:
    """Return whether a task has failed for good and its component cannot succeed any more without it."""
    if not part.counts[TaskState.FAILED]:
        return False
    match _rule(run, part):
        case Enough.ALL:
            return part.counts[TaskState.FAILED] > given_up(part)
        case Enough.ANY:
            return part.counts[TaskState.FAILED] + part.counts[TaskState.STOPPED] == part.size
        case Enough.INDEX0:
            return _first(part) is TaskState.FAILED
        case rule:
            assert_never(rule)


def failed_enough(run: JobRun) -> bool:
    """Return whether so many tasks have failed in components which have failed that the others are stopped."""
    most = 0 if run.job.fail_fast else run.job.ending.max_failures
    parts = [part for part in run.components.values() if failed(run, part)]
    return most is not None and sum(part.counts[TaskState.FAILED] for part in parts) > most


def done_without(run: JobRun, part: ComponentRun) -> int:
    """Return how many failed tasks of the component its job does without, while the component has not failed."""
    return given_up(part) if _rule(run, part) is Enough.ALL else part.counts[TaskState.FAILED]


def given_up(part: ComponentRun) -> int:
    """Return how many failed tasks an elastic component does without: all of them, as long as ``min`` others remain."""
    failures = part.counts[TaskState.FAILED]
    least = part.spec.min
    return failures if least is not None and part.size - len(part.joining) - failures >= least else 0


def _rule(run: JobRun, part: ComponentRun) -> Enough:
    return run.job.ending.enough.get(part.spec.name, Enough.ALL)


def _succeeded(part: ComponentRun) -> int:
    """Return how many of its members have succeeded. New tasks count once they are members."""
    early = sum(part.tasks[index].state is TaskState.SUCCEEDED for index in part.joining)
    return part.counts[TaskState.SUCCEEDED] - early


def _first(part: ComponentRun) -> TaskState | None:
    return part.tasks[0].state if 0 in part.tasks else None


def lets_tasks_go_on(run: JobRun) -> bool:
    """Return whether tasks that still run go on after the result of the job is known (``clean: none``)."""
    outcome = run.outcome
    result = outcome is not None and outcome.state in (JobState.SUCCEEDED, JobState.FAILED)
    if run.job.ending.clean is not Clean.NONE or not result:
        return False
    assert outcome is not None
    return outcome.reason is None or outcome.reason.code is ReasonCode.COMPONENT_FAILED


def waiting_reason(run: JobRun) -> Reason | None:
    """Return what a job shows while it has a result, and some of its tasks have not ended."""
    assert run.outcome is not None
    state, reason, _ = run.outcome
    if not lets_tasks_go_on(run):
        return reason
    message = f"{state.value.lower()}; tasks that still run go on, and the job ends with the last of them (clean: none)"
    return Reason(ReasonCode.JOB_ENDED, message)


def start_clock(step: Step, run: JobRun) -> None:
    """Start the time limits of a job that begins to run."""
    if run.job.timeout is not None:
        run.deadline = step.later(run.job.timeout)
        step.agenda.add(run.deadline.at, "deadline", run.id)
    if run.job.ending.deadline is not None and run.last_deadline is None:
        run.last_deadline = step.later(run.job.ending.deadline)
        step.agenda.add(run.last_deadline.at, "deadline", run.id)
    plan_notices(step.agenda, run)


def plan_notices(agenda: Agenda, run: JobRun) -> None:
    """Have tasks told ahead of the time limits of their job (``limit_notices``)."""
    for name, component in run.components.items():
        if (at := notice_at(run, component)) is not None:
            agenda.add(at, "ahead", run.id, name)


def notice_at(run: JobRun, component: ComponentRun) -> float | None:
    """Return the steady time at which tasks of a component are told of the time limit of their job, or None.

    Not in the first half of the time, however long the notice is."""
    notice, limit, ends = component.spec.notice, time_limit(run), must_end_by(run)
    return None if notice is None or limit is None or not ends else min(ends) - min(notice.seconds, limit / 2)


def exceeded(step: Step, run: JobRun) -> Reason | None:
    """Return which time limit the job has exceeded, or None."""
    if run.last_deadline is not None and run.last_deadline.at <= step.now:
        message = f"exceeded its deadline of {run.job.ending.deadline:g} s"
    elif run.deadline is not None and run.deadline.at <= step.now:
        message = f"exceeded its time limit of {run.job.timeout:g} s"
    else:
        return None
    return Reason(ReasonCode.TIMEOUT, message)


def time_limit(run: JobRun) -> float | None:
    """Return the seconds for which the job may run at most, or None."""
    return min((each for each in (run.job.timeout, run.job.ending.deadline) if each is not None), default=None)


def must_end_by(run: JobRun) -> list[float]:
    """Return the steady times at which time limits end the job."""
    return [moment.at for moment in (run.deadline, run.last_deadline) if moment is not None]


def start_ttl(step: Step, run: JobRun) -> None:
    """Count the ``ttl`` of a job from now on: its result is known."""
    ttl = run.job.ending.ttl
    run.expires = None if ttl is None else step.wall + ttl


def note_end(step: Step, run: JobRun) -> None:
    """Set when the record and the logs of a job that ends now are removed."""
    if run.expires is None:
        start_ttl(step, run)
    run.logs_until = step.wall + LOGS_KEPT if run.job.ending.clean is Clean.ALL else None


def expired(step: Step, run: JobRun) -> bool:
    """Return whether a job that has its result is to be removed now, by its own ``ttl``."""
    return run.expires is not None and step.wall >= run.expires


def drop_logs(step: Step) -> None:
    """Have the logs removed of ended jobs with ``clean: all``."""
    for run in step.cluster.jobs.values():
        if run.logs_until is not None and step.wall >= run.logs_until:
            run.logs_until = None
            step.changes.logs_dropped.append(run.id)
