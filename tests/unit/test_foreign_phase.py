"""The state of a job in the words of the system whose file started it."""

from __future__ import annotations

import pytest

from grass.api.foreign_phase import foreign_phase
from grass.model.lifecycle import JobState
from grass.wire.job_views import JobView
from tests.support.job_views import job_view, operation_view


def job(dialect: str, state: str, *ran: str, result: str | None = None, tries: int = 0) -> JobView:
    """``ran``: the components of which a task has run."""
    components = {
        name: {"replicas": 1, "ran": name in ran, "counts": {}} for name in ("launcher", "worker", "supervisor")
    }
    known = state if JobState(state).ended else result
    return job_view(dialect=dialect, state=state, result=known, tries=tries, components=components)


@pytest.mark.parametrize(
    ("found", "phase"),
    [
        (job("TrainingJob", "QUEUED"), "Created"),
        (job("TrainingJob", "QUEUED", tries=1), "Created"),
        (job("TrainingJob", "RUNNING", "worker"), "Created"),
        (job("TrainingJob", "RUNNING", "launcher", "worker"), "Running"),
        (job("TrainingJob", "SUSPENDED"), "Suspended"),
        (job("TrainingJob", "SUCCEEDED"), "Succeeded"),
        (job("TrainingJob", "STOPPED"), "Failed"),
        (job("MarsJob", "RUNNING", "supervisor"), "Created"),
        (job("MarsJob", "RUNNING", "supervisor", "worker"), "Running"),
        (job("MarsJob", "QUEUED", tries=1), "Restarting"),
    ],
)
def test_a_state_has_a_word_of_the_other_system(found: JobView, phase: str) -> None:
    assert foreign_phase(found, []) == f"{found.dialect}: {phase}"


@pytest.mark.parametrize("dialect", ["TrainingJob", "MarsJob"])
@pytest.mark.parametrize(("result", "phase"), [("SUCCEEDED", "Succeeded"), ("FAILED", "Failed")])
def test_a_job_has_its_result_before_its_last_task_has_ended(dialect: str, result: str, phase: str) -> None:
    found = job(dialect, "STOPPING", "worker", result=result)
    assert foreign_phase(found, []) == f"{dialect}: {phase}"


def test_an_operation_that_has_not_ended_is_scaling() -> None:
    found = job("TrainingJob", "RUNNING", "launcher")
    assert foreign_phase(found, [operation_view(kind="scale", state="ENDED")]) == "TrainingJob: Running"
    assert foreign_phase(found, [operation_view(kind="scale", state="STARTING")]) == "TrainingJob: Scaling"


def test_every_state_has_a_word_and_other_dialects_have_none() -> None:
    for state in JobState:
        assert foreign_phase(job("TrainingJob", state.value), [])
        assert foreign_phase(job("MarsJob", state.value), [])
        assert foreign_phase(job("native", state.value), []) == ""
