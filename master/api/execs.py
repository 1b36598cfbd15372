"""`/v1/jobs/{job}/tasks/{task}/exec`: a command beside a running task. Forwarded to the task's node.

A session is named ``NODE:ID``, because the task may have moved to another node since the session was opened. Used by
``handlers``.
"""

from __future__ import annotations

from grass.errors import ConflictError, NotFoundError, UndecodableError
from grass.model.event_kind import EventKind
from grass.model.key_text import attempt_text, task_parts
from grass.model.lifecycle import TaskState
from grass.wire.calls import Exec, ExecInput, ExecSize, NoContent
from grass.wire.exec_views import ExecAccepted, ExecOutput, ExecStarted
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.membership_api import check_arguments
from grass.wire.task_record import TaskRecord
from master.api import node_sessions
from master.api.call import Call, Reply
from master.api.job_changes import find_job
from master.api.node_sessions import PAUSE, Kind, Opened, ask, await_output, find_opened


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
    size = {name: value for name in ("rows", "cols") if (value := getattr(request, name)) is not None}
    body = {"key": attempt_text(record.id, task, found.attempt), "argv": request.argv, "tty": request.tty, **size}
    name = node_sessions.start(call, Kind.EXEC, found.node, f"{record.id}/{task}", body)
    what = f"task {record.name}.{task}: command `{request.argv[0]}` run beside it"
    call.log_event(EventKind.EXEC, what, job=record.name, run=record.id, task=task, node=found.node)
    return Reply(ExecStarted(name, found.node, found.attempt), 201)


def output(call: Call, job: str, task: str, session: str) -> ExecOutput:
    opened, after = _opened(call, job, task, session), int(call.query["after"])
    with call.waiting() as granted:
        if not granted:
            return ExecOutput((), after, None, PAUSE)
        answer = await_output(call, opened, after)
    return ExecOutput(answer["chunks"], answer["next"], answer["code"], 0.0)


def give_input(call: Call, job: str, task: str, session: str) -> ExecAccepted:
    opened = _opened(call, job, task, session)
    return ExecAccepted(ask(call, opened, "POST", "/input", call.read(ExecInput))["taken"])


def resize(call: Call, job: str, task: str, session: str) -> NoContent:
    ask(call, _opened(call, job, task, session), "POST", "/resize", call.read(ExecSize))
    return NoContent()


def close(call: Call, job: str, task: str, session: str) -> NoContent:
    ask(call, _opened(call, job, task, session), "DELETE")
    return NoContent()


def _opened(call: Call, job: str, task: str, session: str) -> Opened:
    record = find_job(call, job)
    if task_parts(task) is None:
        raise _no_task(record, task)
    return find_opened(call, Kind.EXEC, session, f"{record.id}/{task}")


def _no_task(record: JobRecord, task: str) -> NotFoundError:
    return NotFoundError(f"job {record.name}: no task {task}; `grass job show {record.name}` lists its tasks")


def _find_task(call: Call, record: JobRecord, task: str) -> TaskRecord | None:
    try:
        key = TaskKey.parse(task)
    except UndecodableError:
        return None
    return call.api.store.tasks(record.id).get(key)


def _tasks_of(record: JobRecord) -> set[str]:
    return {f"{name}.{index}" for name, part in record.components.items() for index in part.indexes}
