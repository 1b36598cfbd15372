"""`/v1/jobs/{job}/forward`: connections to a port of a running task, through the API to the user's machine.

A forward is named ``NODE:ID``, as sessions of commands are. It belongs to one attempt and ends with it. Used by
``handlers``.
"""

from __future__ import annotations

from grass.errors import ConflictError, InputError, NotFoundError
from grass.model.event_kind import EventKind
from grass.model.job import Component, Job
from grass.model.lifecycle import TaskState
from grass.wire.calls import Forward, ForwardInput, NoContent
from grass.wire.exec_views import ForwardAccepted, ForwardOutput, ForwardStarted
from grass.wire.job_record import JobRecord
from grass.wire.keys import AttemptKey, TaskKey
from grass.wire.task_record import TaskRecord
from master.api import node_sessions
from master.api.call import Call, Reply
from master.api.job_changes import find_job
from master.api.node_sessions import PAUSE, Kind, Opened, ask, await_output, find_opened


def start(call: Call, job: str) -> Reply:
    record, request = find_job(call, job), call.read(Forward)
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name}: not found; it is being deleted")
    component, port = _port(record.name, spec, request)
    key, task = _running(call, record, component, request.index)
    assert task.node is not None  # a running task has a node
    if port not in task.ports:
        raise ConflictError(f"task {record.name}.{key}: has no port {port} yet; try again once it runs")
    attempt = str(AttemptKey(record.id, component.name, key.index, task.attempt))
    body = {"key": attempt, "port": task.ports[port]}
    name = node_sessions.start(call, Kind.FORWARD, task.node, record.id, body)
    what = f"task {record.name}.{key}: port {port} opened to the machine of {call.user}"
    call.log_event(EventKind.FORWARD, what, job=record.name, run=record.id, task=str(key), node=task.node)
    return Reply(ForwardStarted(name, str(key), task.node, port), 201)


def output(call: Call, job: str, forward: str) -> ForwardOutput:
    opened, after = _opened(call, job, forward), int(call.query["after"])
    with call.waiting() as granted:
        if not granted:
            return ForwardOutput((), after, False, PAUSE)
        answer = await_output(call, opened, after)
    chunks = tuple((number, data) for number, data in answer["chunks"])
    return ForwardOutput(chunks, answer["next"], answer["over"], 0.0)


def give_input(call: Call, job: str, forward: str) -> ForwardAccepted:
    opened = _opened(call, job, forward)
    return ForwardAccepted(ask(call, opened, "POST", "/input", call.read(ForwardInput))["taken"])


def close_connection(call: Call, job: str, forward: str, connection: str) -> NoContent:
    opened = _opened(call, job, forward)
    if not (connection.isascii() and connection.isdecimal()):
        raise InputError(f"connection: must be a number, got {connection!r}")
    ask(call, opened, "DELETE", f"/connections/{int(connection)}")
    return NoContent()


def close(call: Call, job: str, forward: str) -> NoContent:
    ask(call, _opened(call, job, forward), "DELETE")
    return NoContent()


def _opened(call: Call, job: str, forward: str) -> Opened:
    return find_opened(call, Kind.FORWARD, forward, find_job(call, job).id)


def _port(name: str, spec: Job, request: Forward) -> tuple[Component, str]:
    """Return the component and the name of the port that the request means."""
    if request.component is not None:
        component = spec.components.get(request.component)
        if component is None:
            known = ", ".join(spec.components)
            raise NotFoundError(f"job {name}: no component {request.component}; it has {known}")
    else:
        component = next((part for part in spec.components.values() if _publishes(part, request.port)), None)
        if component is None:
            raise NotFoundError(f"job {name}: no component publishes a page (`web`); name a component and a port")
    port = request.port or component.web or (component.ports[0] if len(component.ports) == 1 else None)
    known = ", ".join(component.ports) or "none"
    if port is None:
        raise NotFoundError(f"component {name}.{component.name}: publishes no page; choose one of its ports: {known}")
    if port not in component.ports:
        raise NotFoundError(f"component {name}.{component.name}: no port {port}; it has {known}")
    return component, port


def _publishes(part: Component, port: str | None) -> bool:
    return part.web is not None if port is None else port in part.ports


def _running(call: Call, record: JobRecord, component: Component, index: int | None) -> tuple[TaskKey, TaskRecord]:
    """Return the task that runs: the one with this index, or the first."""
    tasks = call.api.store.tasks(record.id)
    if index is None:
        running = (
            key.index
            for key, task in tasks.items()
            if key.component == component.name and task.state is TaskState.RUNNING
        )
        chosen = min(running, default=None)
    else:
        chosen = index
    task = None if chosen is None else tasks.get(TaskKey(component.name, chosen))
    if chosen is None or task is None or task.state is not TaskState.RUNNING:
        what = f"{component.name}" if index is None else f"{component.name}.{index}"
        state = record.state.value if task is None else task.state.value
        raise ConflictError(f"job {record.name}: {what} does not run ({state}); its page needs a running task")
    return TaskKey(component.name, chosen), task
