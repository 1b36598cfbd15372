"""Say the state of a job in the words of the system whose file started it. Pure.

Used by ``grass.cli.job`` and ``node.operator.status``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState
from grass.wire.operation_record import OperationKind, OperationState

if TYPE_CHECKING:
    from grass.wire.job_views import JobView, OperationView

_CHIEF = {
    "TrainingJob": "launcher",
    "MarsJob": "worker",
    "ElasticJob": "worker",
    "MPIJob": "launcher",
    "PyTorchJob": "worker",
    "TFJob": None,
}
"""Kind of the file → the component with whose first task the job is Running; None, or a job has none so named: any."""
_RESULTS = {JobState.SUCCEEDED: "Succeeded", JobState.FAILED: "Failed", JobState.STOPPED: "Failed"}


def foreign_phase(job: JobView, operations: Sequence[OperationView]) -> str:
    """Return ``TrainingJob: Running``; empty for a job of Grass's own or of MARO's file."""
    dialect = job.dialect
    return f"{dialect}: {phase_of(job, operations)}" if dialect in _CHIEF else ""


def phase_of(job: JobView, operations: Sequence[OperationView]) -> str:
    """Return the phase of a TrainingJob, or the newest condition of another job. Tasks may outlive its result."""
    state, result = job.state, job.result
    if result is not None:
        return _RESULTS[result]
    match state:
        case JobState.QUEUED:
            return "Restarting" if job.tries and job.dialect != "TrainingJob" else "Created"
        case JobState.SUSPENDED:
            return "Suspended"
        case JobState.RUNNING | JobState.STOPPING:
            return _running_phase(job, operations)
        case JobState.SUCCEEDED | JobState.FAILED | JobState.STOPPED:
            return _RESULTS[state]
        case _:
            assert_never(state)


def _running_phase(job: JobView, operations: Sequence[OperationView]) -> str:
    """It stays Running whatever happens to its tasks. While an operation changes its size, a TrainingJob is Scaling."""
    if job.dialect == "TrainingJob" and any(
        each.kind is OperationKind.SCALE and each.state is not OperationState.ENDED for each in operations
    ):
        return "Scaling"
    chief = _CHIEF[job.dialect] if _CHIEF[job.dialect] in job.components else None
    ran = any(part.ran for name, part in job.components.items() if chief in (None, name))
    return "Running" if ran else "Created"
