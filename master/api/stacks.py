"""`/v1/jobs/{job}/stacks`: what the processes of a job's running tasks do now. Used by ``handlers``."""

from __future__ import annotations

from grass.errors import ConflictError, InputError, NotFoundError
from grass.model.key_text import attempt_text
from grass.model.lifecycle import TaskState
from grass.wire.calls import StacksQuery
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.stacks import JobStacks
from master.api.call import Call
from master.api.job_changes import find_job
from master.node_calls.stacks import collect

MOST = 1024
"""Tasks of one call."""


def show_stacks(call: Call, job: str) -> JobStacks:
    record, wanted = find_job(call, job), call.read(StacksQuery)
    chosen = {str(key) for name in wanted.tasks for key in _named(record, name)}
    running = {
        str(key): task
        for key, task in sorted(call.api.store.tasks(record.id).items())
        if task.state is TaskState.RUNNING and task.node is not None and (not wanted.tasks or str(key) in chosen)
    }
    if not running:
        what = "none of these tasks runs" if wanted.tasks else "no task of it runs"
        raise ConflictError(f"job {record.name}: {what}; only running tasks have stacks")
    if len(running) > MOST:
        raise InputError(f"job {record.name}: {len(running)} tasks run; name at most {MOST} of them")
    keys: dict[str, list[str]] = {}
    for task, found in running.items():
        assert found.node is not None  # see above
        keys.setdefault(found.node, []).append(attempt_text(record.id, task, found.attempt))
    nodes = {node.name: node for node in call.api.store.nodes()}
    with call.outside():
        collected = collect(call.api.config, nodes, keys)
    order = {task: position for position, task in enumerate(running)}
    call.check_admitted()
    return JobStacks(record.name, tuple(sorted(collected.tasks, key=lambda each: order[each.task])), collected.notes)


def _named(record: JobRecord, name: str) -> list[TaskKey]:
    """Return the tasks that ``worker`` or ``worker.3`` names. Raises NotFoundError."""
    component, _, index = name.partition(".")
    part = record.components.get(component)
    keys = [TaskKey(component, each) for each in part.indexes] if part else []
    found = keys if not index else [key for key in keys if str(key) == name]
    if not found:
        raise NotFoundError(f"job {record.name}: no task {name}; `grass job show {record.name}` lists its tasks")
    return found
