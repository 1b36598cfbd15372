"""Keeps the attempt of a task that gets another one. Used by ``placement`` and ``scaling``."""

from __future__ import annotations

from grass.wire.attempt_record import attempt_of, expired_attempt, field_of
from grass.wire.keys import TaskKey
from master.agent.component_run import ComponentRun
from master.agent.state import JobRun
from master.agent.step import Step


def keep(step: Step, run: JobRun, component: ComponentRun, index: int) -> None:
    """Keep the task's newest attempt, if it has one. Of a job with very many restarts, the oldest is removed.

    The record of a task that was removed, and is there again, has the number of an attempt but nothing else of it.
    """
    task = component.tasks[index]
    if task.node is None:
        task = (component.released or {}).get(index, task)
    if task.node is None:
        return
    key = TaskKey(component.spec.name, index)
    attempts = step.changes.attempts.setdefault(run.id, {})
    attempts[field_of(key, task.attempt)] = attempt_of(task)
    tasks = sum(part.size for part in run.components.values())
    restarts = run.restarts + run.tries * tasks
    expired = expired_attempt(task.attempt, restarts, tasks, step.limits.attempts_kept)
    if expired is not None:
        attempts[field_of(key, expired)] = None
