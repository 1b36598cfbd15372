"""Say the state of a job in the words of the system whose file started it. Pure. Used by `grass job show`."""

from __future__ import annotations

from collections.abc import Sequence

from grass.cli.view import View
from grass.model.exhaustive import assert_never
from grass.model.lifecycle import JobState

_DIALECTS = ("TrainingJob", "MarsJob")


def foreign_phase(job: View, operations: Sequence[View]) -> str:
    """Return ``TrainingJob: Running``; empty for a job of Grass's own or of MARO's file."""
    dialect = job["dialect"]
    if dialect not in _DIALECTS:
        return ""
    phase = _training_phase(job, operations) if dialect == "TrainingJob" else _mars_condition(job)
    return f"{dialect}: {phase}"


def _training_phase(job: View, operations: Sequence[View]) -> str:
    """Return the phase of a TrainingJob. While an operation changes its size, that is Scaling."""
    state = JobState(job["state"])
    match state:
        case JobState.QUEUED:
            return "Created"
        case JobState.RUNNING:
            if any(each["kind"] == "scale" and each["state"] != "ENDED" for each in operations):
                return "Scaling"
            return "Running" if _runs(job, "launcher") else "Created"
        case JobState.SUSPENDED:
            return "Suspended"
        case JobState.STOPPING:
            return "Running"
        case JobState.SUCCEEDED:
            return "Succeeded"
        case JobState.FAILED | JobState.STOPPED:
            return "Failed"
        case _:
            assert_never(state)


def _mars_condition(job: View) -> str:
    """Return the newest condition of a MarsJob. It is Running once a worker runs."""
    state = JobState(job["state"])
    match state:
        case JobState.QUEUED:
            return "Restarting" if job["tries"] else "Created"
        case JobState.RUNNING | JobState.STOPPING:
            return "Running" if _runs(job, "worker") else "Created"
        case JobState.SUSPENDED:
            return "Suspended"
        case JobState.SUCCEEDED:
            return "Succeeded"
        case JobState.FAILED | JobState.STOPPED:
            return "Failed"
        case _:
            assert_never(state)


def _runs(job: View, component: str) -> bool:
    part = job["components"].get(component)
    return part is not None and part["counts"].get("RUNNING", 0) + part["counts"].get("SUCCEEDED", 0) > 0
