"""Sends a signal to the first process of running tasks, through commands beside them. Used by ``client``."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec import UNSET

from grass.errors import ConflictError, InputError, NotFoundError
from grass.model.job import runtime_of
from grass.model.lifecycle import TaskState

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import TaskView


def number_of(name: str | int) -> int:
    """Return the number of a signal: ``USR1``, ``SIGUSR1`` or ``10``. Raises InputError."""
    text = str(name).upper()
    try:
        found = signal.Signals(int(text)) if text.isdecimal() else signal.Signals[f"SIG{text.removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise InputError(f"{name!r} is no signal; name one, such as USR1, HUP or INT") from None
    return found.value


def send(client: Client, name: str, number: int, parts: Sequence[str]) -> list[str]:
    """Send a signal to the running tasks among ``parts`` (empty: to all). Return their names."""
    details = client.job(name)
    tasks = client.tasks(details.id)
    for part in parts:
        if not any(part in (task.component, task.task) for task in tasks):
            raise NotFoundError(f"job {details.name}: has no component or task {part}")
    wanted = [task for task in tasks if not parts or task.component in parts or task.task in parts]
    running = [task for task in wanted if task.state is TaskState.RUNNING and task.pid is not None]
    if not running or details.specification is UNSET:
        raise ConflictError(f"job {details.name}: none of these tasks runs now; `grass job show` tells their states")
    nodes = {node.name: node.runtimes or () for node in client.nodes()}
    for task in running:
        component = details.specification.components[task.component]
        contained = runtime_of(component, nodes.get(task.node or "", ())).contained
        _send(client, details.id, task, number, 1 if contained else task.pid or 0)
    return [task.task for task in running]


def _send(client: Client, job_id: str, task: TaskView, number: int, pid: int) -> None:
    """Raises ConflictError if the signal cannot be sent: the task has ended, or its image has no shell."""
    with closing(client.execute(job_id, task.task, ["/bin/sh", "-c", f"kill -{number} {pid}"])) as running:
        running.send(b"", end=True)
        said = b"".join(data for _, data in running.output()).decode(errors="replace").strip()
        if running.code:
            raise ConflictError(f"{task.task}: the signal cannot be sent: {said or f'exit code {running.code}'}")
