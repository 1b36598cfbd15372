"""`/v1/jobs/{job}/forward`: connections to a port of a running task, through the API to the user's machine.

A forward is named ``NODE:ID``, as sessions of commands are. It belongs to one attempt and ends with it. Used by
``handlers``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from grass.errors import ConflictError, InputError, NotFoundError
from grass.model.event_kind import EventKind
from grass.model.job import Component, Job
from grass.model.lifecycle import TaskState
from grass.wire.calls import Forward, ForwardInput, NoContent
from grass.wire.channel_views import ForwardOutput, ForwardStarted
from grass.wire.job_record import JobRecord
from grass.wire.keys import AttemptKey, TaskKey
from grass.wire.node_api import CLOSE_CONNECTION, FORWARD, NOTHING, OpenForward
from grass.wire.task_record import TaskRecord
from master.api import channels
from master.api.call import Call, Handler, Reply
from master.api.channels import PAUSE, Channel, ask
from master.api.job_changes import find_job


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
    wanted = OpenForward(attempt, task.ports[port], call.user)
    name = channels.start(call, FORWARD, task.node, {"job_id": record.id}, wanted)
    what = f"task {record.name}.{key}: port {port} opened to the machine of {call.user}"
    call.log_event(EventKind.FORWARD, what, job=record.name, run=record.id, task=str(key), node=task.node)
    return Reply(ForwardStarted(name, str(key), task.node, port), 201)


def close_connection(call: Call, job: str, forward: str, connection: str) -> NoContent:
    opened = _opened(call, job, forward)
    if not re.fullmatch(r"[0-9]{1,18}", connection):
        raise InputError(f"connection: must be a number, got {connection!r}")
    return ask(call, opened, CLOSE_CONNECTION, NOTHING, number=str(int(connection)))


def _opened(call: Call, job: str, forward: str) -> Channel:
    return channels.find(call, "forward", forward, {"job_id": find_job(call, job).id})


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


HANDLERS: Mapping[str, Handler] = {
    "start": start,
    "close": close_connection,
    **channels.handlers(FORWARD, ForwardInput, _opened, lambda after: ForwardOutput((), after, False, PAUSE)),
}
