"""What the page can change, each as the user of the client: one function per action. Called by ``app``.

The API checks the rights; the page only does not offer what the role forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from grass.api.client import ApiClient
from grass.errors import InputError

Body = Mapping[str, Any]  # Any: JSON that the page sent
Action = Callable[[ApiClient, Body], Any]


class JobFiles(Protocol):
    """Reads job files and scripts, and starts them. The CLI passes one; the dashboard does not know their dialects."""

    def plan(self, client: ApiClient, name: str, text: str) -> Any: ...

    def start(self, client: ApiClient, name: str, text: str) -> Any: ...


def _text(body: Body, name: str) -> str:
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
        return _text(body, "name") if body.get("name") else ""

    return {
        "job-plan": lambda client, body: job_files.plan(client, named(body), _text(body, "text")),
        "job-start": lambda client, body: job_files.start(client, named(body), _text(body, "text")),
    }


ACTIONS: dict[str, Action] = {
    "job-stop": lambda client, body: client.stop(_text(body, "job")),
    "task-stop": lambda client, body: client.stop(_text(body, "job"), tasks=[_text(body, "task")]),
    "job-rerun": lambda client, body: client.rerun(_text(body, "job")),
    "job-rerun-failed": lambda client, body: client.rerun(_text(body, "job"), failed=True),
    "job-hold": lambda client, body: client.hold(_text(body, "job")),
    "job-release": lambda client, body: client.release(_text(body, "job")),
    "job-priority": lambda client, body: client.set_priority(_text(body, "job"), _number(body, "priority")),
    "job-scale": lambda client, body: client.scale(
        _text(body, "job"), _text(body, "component"), _number(body, "size"), deadline=_seconds(body, "deadline")
    ),
    "job-suspend": lambda client, body: client.suspend(_text(body, "job")),
    "job-resume": lambda client, body: client.resume(_text(body, "job")),
    "job-restart": lambda client, body: client.restart(_text(body, "job")),
    "task-replace": lambda client, body: client.replace(_text(body, "job"), _text(body, "task")),
    "operation-cancel": lambda client, body: client.cancel_operation(_text(body, "job"), _text(body, "operation")),
    "job-delete": lambda client, body: client.delete(_text(body, "job")),
    "node-cordon": lambda client, body: client.cordon(_text(body, "node")),
    "node-uncordon": lambda client, body: client.uncordon(_text(body, "node")),
    "node-drain": lambda client, body: client.drain(_text(body, "node"), _seconds(body, "deadline")),
    "schedule-stop": lambda client, body: client.stop_schedule(_text(body, "schedule")),
    "schedule-pause": lambda client, body: client.pause_schedule(_text(body, "schedule")),
    "schedule-resume": lambda client, body: client.resume_schedule(_text(body, "schedule")),
    "schedule-delete": lambda client, body: client.delete_schedule(_text(body, "schedule")),
    "schedule-run": lambda client, body: client.run_schedule(_text(body, "schedule")),
}
