"""Decides what is done for a ScaleIn or a ScaleOut. Pure. Used by ``loop``.

Grass carries operations on one job out one after the other, in the order in which they were filed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from grass.errors import ManifestError
from grass.kubernetes.custom_kinds import SCALE_IN, TRAINING_JOB, Kind
from grass.kubernetes.custom_resources import Resource
from grass.manifest.document import Document
from grass.manifest.foreign.dialects import parse_scale
from grass.manifest.foreign.scaling import ScaleRequest
from grass.model.lifecycle import JobState
from grass.wire.job_views import JobView, OperationView
from grass.wire.operation_record import OperationState, Outcome
from node.operator.identity import operation_of, run_of
from node.operator.status import REJECTED, Said, present

_FILED = frozenset({"Scaling", "ScriptExecuted"})


class File(NamedTuple):
    """File an operation on a job. ``id``: of the operation."""

    id: str
    job: str
    request: ScaleRequest


def target_of(resource: Resource, jobs: Iterable[Resource]) -> Resource | None:
    """Return the TrainingJob that a ScaleIn or a ScaleOut names."""
    selector = (resource.spec or {}).get("selector")
    name = selector.get("name") if isinstance(selector, dict) else None
    return next((each for each in jobs if each.metadata.name == name), None)


def decide(
    kind: Kind,
    resource: Resource,
    target: Resource | None,
    job: JobView | None,
    operations: Sequence[OperationView],
) -> File | Said | None:
    """Return the next step for a resource that is not finished. ``job``: of the ``target``; None: there is none.

    ``operations``: those on the job.
    """
    if resource.metadata.deletion_timestamp is not None:
        return None
    try:
        request = parse_scale(_document(kind, resource)).request
    except ManifestError as error:
        return rejected(error)
    if target is None:
        return Said("Created", "WaitsForJob", f"there is no TrainingJob {request.job} in the namespace")
    if job is None or job.state is JobState.QUEUED:
        return Said("Created", "WaitsForJob", f"TrainingJob {request.job} has not begun")
    own = operation_of(kind, resource)
    filed = next((each for each in operations if each.id == own), None)
    if filed is not None:
        return said_of(filed)
    said = present(resource)
    if said is not None and said.word in _FILED:
        return Said("ScaleFailed", "OperationGone", f"operation {own} is no longer known, so nobody knows how it ended")
    if job.result is not None or job.state.ended:
        return Said("ScaleFailed", "JobEnded", f"TrainingJob {request.job} has ended")
    return File(own, run_of(TRAINING_JOB, target).id, request)


def said_of(operation: OperationView) -> Said:
    """Return what the status says about the operation."""
    if operation.state is not OperationState.ENDED:
        return Said("Scaling", "ScalingStart", operation.message)
    done = operation.outcome is Outcome.DONE
    outcome = operation.outcome.value.title().replace("_", "") if operation.outcome is not None else "Ended"
    return Said("ScaleSucceeded" if done else "ScaleFailed", f"Scaling{outcome}", operation.message)


def rejected(error: Exception) -> Said:
    return Said("ScaleFailed", REJECTED, f"Grass refuses it: {error}")


def pods_of(kind: Kind, resource: Resource, operation: OperationView) -> Document:
    """Return which workers it adds or removes, as et-operator's status does."""
    job = ((resource.spec or {}).get("selector") or {}).get("name")
    tasks = operation.removed if kind == SCALE_IN else operation.added
    return {"toDeletePods" if kind == SCALE_IN else "addPods": [f"{job}-{each.replace('.', '-')}" for each in tasks]}


def _document(kind: Kind, resource: Resource) -> Document:
    return {"apiVersion": kind.api_version, "kind": kind.name, "spec": resource.spec or {}}
