"""`/v1/jobs/{job}/tasks/{task}/exec`: a command beside a running task. Forwarded to the task's node.

A session is named ``NODE:ID``, because the task may have moved to another node since the session was opened. Used by
``app``.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from grass.errors import ConflictError, InputError, NotFoundError, UndecodableError
from grass.model.event_kind import EventKind
from grass.model.key_text import attempt_text, opened_name
from grass.model.lifecycle import TaskState
from grass.wire.calls import Exec, ExecInput, ExecSize, NoContent
from grass.wire.codec import builtins
from grass.wire.exec_views import ExecAccepted, ExecOutput, ExecStarted
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord
from master.api.call import Api, Call, Handler, Reply
from master.api.job_changes import find_job
from master.api.node_client import call_node, read_output
from master.api.node_sessions import PAUSE, ending, find_node, opened, split_name
from master.api.registry import noun_blueprint


def blueprint(api: Api) -> Blueprint:
    handlers: dict[str, Handler] = {
        "start": start,
        "output": output,
        "input": give_input,
        "resize": resize,
        "delete": close,
    }
    return noun_blueprint("exec", api, handlers)


def start(call: Call, job: str, task: str) -> Reply:
    record = find_job(call, job)
    found = _find_task(call, record, task)
    if found is None and task not in _tasks_of(record):
        raise NotFoundError(f"job {record.name}: no task {task}; `grass job show {record.name}` lists its tasks")
    if found is None or found.state is not TaskState.RUNNING:
        state = "PENDING" if found is None else found.state.value
        raise ConflictError(f"task {record.name}.{task}: not running ({state}); a command needs a running task")
    assert found.node is not None  # a running task has a node
    request = call.read(Exec)
    if not request.argv:
        raise InputError("argv: must be a list of the command and its arguments")
    size = {name: value for name in ("rows", "cols") if (value := getattr(request, name)) is not None}
    key = attempt_text(record.id, task, found.attempt)
    answer = _node(
        call, found.node, "POST", "", {"key": key, "argv": request.argv, "tty": request.tty, "user": call.user, **size}
    )
    opened(call, found.node, f"/v1/exec/{answer['id']}")
    what = f"task {record.name}.{task}: command `{request.argv[0]}` run beside it"
    call.log_event(EventKind.EXEC, what, job=record.name, run=record.id, task=task, node=found.node)
    return Reply(ExecStarted(opened_name(found.node, answer["id"]), found.node, found.attempt), 201)


def output(call: Call, job: str, task: str, session: str) -> ExecOutput:
    find_job(call, job)
    node, name = split_name("exec session", session)
    after = int(call.query["after"])
    with call.waiting() as granted:
        if not granted:
            return ExecOutput((), after, None, PAUSE)
        path = f"/v1/exec/{name}/output?after={after}"
        with ending(call, node, f"/v1/exec/{name}"):
            answer = read_output(call.api.config, find_node(call, node), path, call.check_admitted)
    return ExecOutput(answer["chunks"], answer["next"], answer["code"], 0.0)


def give_input(call: Call, job: str, task: str, session: str) -> ExecAccepted:
    return ExecAccepted(_passed(call, job, session, "input", call.read(ExecInput))["taken"])


def resize(call: Call, job: str, task: str, session: str) -> NoContent:
    _passed(call, job, session, "resize", call.read(ExecSize))
    return NoContent()


def close(call: Call, job: str, task: str, session: str) -> NoContent:
    find_job(call, job)
    node, name = split_name("exec session", session)
    _node(call, node, "DELETE", f"/{name}")
    return NoContent()


def _passed(call: Call, job: str, session: str, verb: str, content: ExecInput | ExecSize) -> Any:
    find_job(call, job)
    node, name = split_name("exec session", session)
    return _node(call, node, "POST", f"/{name}/{verb}", builtins(content))


def _node(call: Call, name: str, method: str, path: str, body: Any = None) -> Any:
    record = find_node(call, name)
    with call.outside():
        return call_node(call.api.config, record, method, f"/v1/exec{path}", body)


def _find_task(call: Call, record: JobRecord, task: str) -> TaskRecord | None:
    try:
        key = TaskKey.parse(task)
    except UndecodableError:
        return None
    return call.api.store.tasks(record.id).get(key)


def _tasks_of(record: JobRecord) -> set[str]:
    return {f"{name}.{index}" for name, part in record.components.items() for index in part.indexes}
