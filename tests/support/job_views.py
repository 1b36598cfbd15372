"""Views of jobs, tasks and operations as the API sends them, for tests of what shows them: from JSON, with defaults."""

from __future__ import annotations

from typing import Any

from grass.model.reasons import Reason, ReasonCode
from grass.wire.job_details import JOB_DETAILS, JobDetails
from grass.wire.job_views import ATTEMPTS, JOB, OPERATION, TASKS, AttemptView, JobView, OperationView, TaskView

_JOB: dict[str, Any] = {
    "id": "j-1",
    "name": "j",
    "user": "ann",
    "state": "RUNNING",
    "reason": None,
    "result": None,
    "submitted": 1.0,
    "started": None,
    "ended": None,
    "exit_code": None,
    "counts": {},
    "components": {},
    "restarts": 0,
    "schedule": None,
    "operation": None,
    "warnings": [],
    "tags": {},
    "priority": 0,
    "usage": None,
    "dialect": "native",
    "tries": 0,
    "expires": None,
    "held": None,
    "rerun_of": None,
}
_TASK: dict[str, Any] = {
    "task": "w.0",
    "component": "w",
    "index": 0,
    "state": "RUNNING",
    "attempt": 1,
    "node": None,
    "exit_code": None,
    "signal": None,
    "reason": None,
    "started": None,
    "ended": None,
    "ports": None,
    "restarts": 0,
    "pid": None,
    "sizes": None,
    "ready": None,
    "gpus": None,
    "usage": None,
    "software": None,
}
_OPERATION: dict[str, Any] = {
    "id": "op-1",
    "job_id": "j-1",
    "component": None,
    "kind": "scale",
    "state": "WAITING",
    "author": "ann",
    "reason": "",
    "from_size": None,
    "to_size": None,
    "delta": None,
    "filed": 1.0,
    "ended": None,
    "outcome": None,
    "message": "",
    "generation": None,
    "cancellable": True,
    "added": [],
    "removed": [],
}
_ATTEMPT = ("task", "attempt", "node", "exit_code", "signal", "reason", "started", "ended")


def job_view(**fields: Any) -> JobView:
    return JOB.convert({**_JOB, **fields})


def job_details(**fields: Any) -> JobDetails:
    return JOB_DETAILS.convert({**_JOB, **fields})


def task_view(**fields: Any) -> TaskView:
    return TASKS.convert({"tasks": [{**_TASK, **fields}]}).tasks[0]


def attempt_view(**fields: Any) -> AttemptView:
    known = {name: _TASK[name] for name in _ATTEMPT}
    return ATTEMPTS.convert({"attempts": [{**known, **fields}]}).attempts[0]


def operation_view(**fields: Any) -> OperationView:
    return OPERATION.convert({**_OPERATION, **fields})


def reason(message: str) -> Reason:
    return Reason(ReasonCode.CANNOT_START, message)
