"""What the page can change, each as the user of the client: one function per action. Called by ``app``.

The API checks the rights; the page only does not offer what the role forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from grass.api.client import Client
from grass.errors import InputError

Body = Mapping[str, Any]  # Any: JSON that the page sent
Action = Callable[[Client, Body], Any]


class JobFiles(Protocol):
    """Reads job files and scripts, and starts them. The CLI passes one; the dashboard does not know their dialects."""

    def plan(self, client: Client, name: str, text: str) -> Any: ...

    def start(self, client: Client, name: str, text: str) -> Any: ...


def text_of(body: Body, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}: must be text, got {value!r}")
    return value


def _seconds(body: Body, name: str) -> float | None:
    value = body.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
        raise InputError(f"{name}: must be seconds, got {value!r}")
    return value


def _number(body: Body, name: str) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name}: must be a whole number, got {value!r}")
    return value


def starting(job_files: JobFiles) -> dict[str, Action]:
    """Return the actions that take a job file: ``text``, and its ``name`` if it was chosen."""

    def named(body: Body) -> str:
        return text_of(body, "name") if body.get("name") else ""

    return {
        "job-plan": lambda client, body: job_files.plan(client, named(body), text_of(body, "text")),
        "job-start": lambda client, body: job_files.start(client, named(body), text_of(body, "text")),
    }


ACTIONS: dict[str, Action] = {
    "job-stop": lambda client, body: client.stop(text_of(body, "job")),
    "task-stop": lambda client, body: client.stop(text_of(body, "job"), tasks=[text_of(body, "task")]),
    "job-rerun": lambda client, body: client.rerun(text_of(body, "job")),
    "job-rerun-failed": lambda client, body: client.rerun(text_of(body, "job"), failed=True),
    "job-hold": lambda client, body: client.hold(text_of(body, "job")),
    "job-release": lambda client, body: client.release(text_of(body, "job")),
    "job-priority": lambda client, body: client.set(text_of(body, "job"), priority=_number(body, "priority")),
    "job-scale": lambda client, body: client.scale(
        text_of(body, "job"), text_of(body, "component"), _number(body, "size"), deadline=_seconds(body, "deadline")
    ),
    "job-suspend": lambda client, body: client.suspend(text_of(body, "job")),
    "job-resume": lambda client, body: client.resume(text_of(body, "job")),
    "job-restart": lambda client, body: client.restart(text_of(body, "job")),
    "task-replace": lambda client, body: client.replace(text_of(body, "job"), text_of(body, "task")),
    "operation-cancel": lambda client, body: client.cancel_operation(text_of(body, "job"), text_of(body, "operation")),
    "job-delete": lambda client, body: client.delete(text_of(body, "job")),
    "node-cordon": lambda client, body: client.cordon(text_of(body, "node")),
    "node-uncordon": lambda client, body: client.uncordon(text_of(body, "node")),
    "node-drain": lambda client, body: client.drain(text_of(body, "node"), _seconds(body, "deadline")),
    "schedule-stop": lambda client, body: client.stop_schedule(text_of(body, "schedule")),
    "schedule-pause": lambda client, body: client.pause_schedule(text_of(body, "schedule")),
    "schedule-resume": lambda client, body: client.resume_schedule(text_of(body, "schedule")),
    "schedule-delete": lambda client, body: client.delete_schedule(text_of(body, "schedule")),
    "schedule-run": lambda client, body: client.run_schedule(text_of(body, "schedule")),
}
