"""`/v1/jobs/{job}/tasks/{task}/exec`: a command beside a running task. Forwarded to the task's node.

A session is named ``NODE:ID``, because the task may have moved to another node since the session was opened. Used by
``handlers``.
"""

from __future__ import annotations

from collections.abc import Mapping

from grass.errors import ConflictError, NotFoundError
from grass.model.event_kind import EventKind
from grass.model.key_text import attempt_text, task_parts
from grass.model.lifecycle import TaskState
from grass.wire.calls import Exec, ExecInput, ExecSize, NoContent
from grass.wire.channel_views import ExecOutput, ExecStarted
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.membership_api import check_arguments
from grass.wire.node_api import EXEC, RESIZE, OpenExec
from grass.wire.task_record import TaskRecord
from master.api import channels
from master.api.call import Call, Handler, Reply
from master.api.channels import PAUSE, Channel, ask
from master.api.job_changes import find_job


def start(call: Call, job: str, task: str) -> Reply:
    record = find_job(call, job)
    found = _find_task(call, record, task)
    if found is None and task not in _tasks_of(record):
        raise _no_task(record, task)
    if found is None or found.state is not TaskState.RUNNING:
        state = "PENDING" if found is None else found.state.value
        raise ConflictError(f"task {record.name}.{task}: not running ({state}); a command needs a running task")
    assert found.node is not None  # a running task has a node
    request = call.read(Exec)
    check_arguments(request.argv)
    key = attempt_text(record.id, task, found.attempt)
    wanted = OpenExec(key=key, user=call.user, argv=request.argv, tty=request.tty, rows=request.rows, cols=request.cols)
    name = channels.start(call, EXEC, found.node, {"job_id": record.id, "task": task}, wanted)
    what = f"task {record.name}.{task}: command `{request.argv[0]}` run beside it"
    call.log_event(EventKind.EXEC, what, job=record.name, run=record.id, task=task, node=found.node)
    return Reply(ExecStarted(name, found.node, found.attempt), 201)


def resize(call: Call, job: str, task: str, session: str) -> NoContent:
    return ask(call, _opened(call, job, task, session), RESIZE, call.read(ExecSize))


def _opened(call: Call, job: str, task: str, session: str) -> Channel:
    record = find_job(call, job)
    if task_parts(task) is None:
        raise _no_task(record, task)
    return channels.find(call, "exec", session, {"job_id": record.id, "task": task})


def _no_task(record: JobRecord, task: str) -> NotFoundError:
    return NotFoundError(f"job {record.name}: no task {task}; `grass job show {record.name}` lists its tasks")


def _find_task(call: Call, record: JobRecord, task: str) -> TaskRecord | None:
    parts = task_parts(task)
    return None if parts is None else call.api.store.tasks(record.id).get(TaskKey(*parts))


def _tasks_of(record: JobRecord) -> set[str]:
    return {f"{name}.{index}" for name, part in record.components.items() for index in part.indexes}


HANDLERS: Mapping[str, Handler] = {
    "start": start,
    "resize": resize,
    **channels.handlers(EXEC, ExecInput, _opened, lambda after: ExecOutput((), after, None, PAUSE)),
}
