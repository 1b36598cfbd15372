"""Builds the status of a resource, with the fields of its system. Pure. The last condition is the present one.

Used by ``jobs`` and ``scales``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from grass.api.foreign_phase import phase_of
from grass.kubernetes.custom_kinds import ELASTIC_JOB, TRAINING_JOB, Kind
from grass.kubernetes.custom_resources import Resource
from grass.manifest.document import Document
from grass.model.lifecycle import TaskState
from grass.wire.job_views import JobView, OperationView

REJECTED = "Rejected"
"""Reason of a resource that has no job, because Grass refuses what it says."""
ENDED = frozenset({"Succeeded", "Failed", "ScaleSucceeded", "ScaleFailed"})
"""Words after which nothing more happens."""
_LONGEST = 1000
_ROLES = {
    "launcher": "Launcher",
    "worker": "Worker",
    "supervisor": "Scheduler",
    "scheduler": "Scheduler",
    "web": "WebService",
}
"""Component → role, as the systems of the resources write it in ``replicaStatuses``."""


class Said(NamedTuple):
    """What a status says. ``word``: the phase, in the words of the resource's system."""

    word: str
    reason: str
    message: str = ""


def present(resource: Resource) -> Said | None:
    """Return what the status of a resource says now; None: nothing, nobody has dealt with it yet."""
    conditions = (resource.status or {}).get("conditions")
    last = conditions[-1] if isinstance(conditions, list) and conditions else None
    if not isinstance(last, dict):
        return None
    word, reason, message = (str(last.get(key) or "") for key in ("type", "reason", "message"))
    return Said(word, reason, message)


def is_rejected(resource: Resource) -> bool:
    """Return whether its specification was refused, and is still the same."""
    said = present(resource)
    seen = (resource.status or {}).get("observedGeneration")
    return said is not None and said.reason == REJECTED and seen == resource.metadata.generation


def is_changed(resource: Resource) -> bool:
    """Return whether the specification has changed since it was last dealt with."""
    seen = (resource.status or {}).get("observedGeneration")
    return isinstance(seen, int) and seen != resource.metadata.generation


def said_of(kind: Kind, job: JobView, operations: Sequence[OperationView], why: str = "") -> Said:
    """Return what the status says about a resource whose job is known. ``why``: its tasks wait."""
    word = phase_of(job, operations)
    reason = job.reason.message if job.reason is not None else why
    return Said(word, f"{kind.name}{word}", ". ".join(part for part in (f"job {job.name}", reason) if part))


def status_of(kind: Kind, resource: Resource, said: Said, now: str, job: JobView | None = None) -> Document:
    """Return the whole status. ``now``: for what changes. ``job``: None: there is none."""
    old = resource.status or {}
    found: Document = {
        "conditions": _conditions(old.get("conditions"), said, now),
        "observedGeneration": _observed(resource, said),
    }
    if kind.phase:
        found["phase"] = said.word
    if job is None:
        return found
    found["grassJob"] = job.id
    found["replicaStatuses"] = _replicas(kind, job)
    if job.started is not None:
        found["startTime"] = moment(job.started)
    if job.ended is not None:
        found["completionTime"] = moment(job.ended)
    if kind == TRAINING_JOB:
        found["restartCount"] = job.tries
        found["currentWorkers"] = _workers(resource.metadata.name, job)
    return found


def _observed(resource: Resource, said: Said) -> int:
    """Return the generation that the status is about: that of the job's start, or of the refusal."""
    old, known = (resource.status or {}).get("observedGeneration"), present(resource)
    if isinstance(old, int) and known is not None and known.reason != REJECTED:
        return old
    return resource.metadata.generation


def moment(wall: float) -> str:
    """Return a time as Kubernetes writes it."""
    return datetime.fromtimestamp(wall, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _conditions(old: object, said: Said, now: str) -> list[Document]:
    """Return the conditions, with what is said as the last one. One of each type is kept."""
    known = [each for each in old if isinstance(each, dict)] if isinstance(old, list) else []
    last = known[-1] if known else {}
    message = said.message[:_LONGEST]
    if last.get("type") == said.word and last.get("reason") == said.reason:
        if last.get("message") == message:
            return known
        return [*known[:-1], {**last, "message": message, "lastUpdateTime": now}]
    before = [_over(each, now) for each in known if each.get("type") != said.word]
    new = {"type": said.word, "status": "True", "reason": said.reason, "message": message}
    return [*before, {**new, "lastUpdateTime": now, "lastTransitionTime": now}]


def _over(condition: Document, now: str) -> Document:
    """Return a condition that is no longer the present one. That a resource was created stays true."""
    if condition.get("type") == "Created" or condition.get("status") == "False":
        return condition
    return {**condition, "status": "False", "lastUpdateTime": now, "lastTransitionTime": now}


def _replicas(kind: Kind, job: JobView) -> Document:
    found: Document = {}
    for name, part in job.components.items():
        role = name if kind == ELASTIC_JOB else _ROLES.get(name, name)
        counts = part.counts
        found[role] = {
            "active": counts.get(TaskState.RUNNING, 0),
            "succeeded": counts.get(TaskState.SUCCEEDED, 0),
            "failed": counts.get(TaskState.FAILED, 0) + counts.get(TaskState.LOST, 0),
        }
    return found


def _workers(name: str, job: JobView) -> list[str]:
    part = job.components.get("worker")
    return [] if part is None else [f"{name}-worker-{index}" for index in part.indexes]
