"""The form of job and task records in redis: JSON, written often, so compact."""

from __future__ import annotations

import json
from typing import Any

from grass.model.job import Job
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason

TASK_FIELDS = (
    "state",
    "attempt",
    "node",
    "exit_code",
    "signal",
    "reason",
    "started",
    "ended",
    "ports",
    "restarts",
    "pid",
    "sizes",
    "ready",
    "gpus",
    "not_before",
    "seq",
    "vacate",
)
"""A task record is a JSON list of these, in this order. ``gpus``: [device id, thousandths] of each. The last three are
the master-agent's own: ``not_before``, steady seconds (with the boot they belong to) until a restart; ``seq``, the
order of starting on a node; ``vacate``, why the attempt was told to make room, so that it is placed again."""

_encoder = json.JSONEncoder(separators=(",", ":"))


def pack(value: object) -> str:
    return _encoder.encode(value)


def job_record(
    job: Job,
    *,
    job_id: str,
    user: str,
    now: float,
    warnings: list[str],
    schedule: str | None,
    reason: Reason | None,
) -> dict[str, Any]:
    """The job view (docs/internals.md) of a job that was just accepted."""
    components = {
        name: {"replicas": part.replicas, "counts": {TaskState.PENDING.value: part.replicas}, "reason": None}
        for name, part in job.components.items()
    }
    return {
        "id": job_id,
        "name": job.name,
        "user": user,
        "state": JobState.QUEUED.value,
        "reason": reason.to_wire() if reason else None,
        "submitted": now,
        "started": None,
        "ended": None,
        "exit_code": None,
        "counts": {TaskState.PENDING.value: job.task_count},
        "components": components,
        "restarts": 0,
        "schedule": schedule,
        "warnings": warnings,
        "outcome": None,
        "deadline": None,
    }


def ended(view: dict[str, Any]) -> bool:
    """Whether the job of this view has come to its end."""
    return JobState(view["state"]).ended
