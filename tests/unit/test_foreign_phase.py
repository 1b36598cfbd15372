"""The state of a job in the words of the system whose file started it."""

from __future__ import annotations

from typing import Any

import pytest

from grass.cli.foreign_phase import foreign_phase
from grass.model.lifecycle import JobState


def job(dialect: str, state: str, *, tries: int = 0, **running: int) -> dict[str, Any]:
    components = {name: {"counts": {"RUNNING": count} if count else {}} for name, count in running.items()}
    return {"dialect": dialect, "state": state, "tries": tries, "components": components}


@pytest.mark.parametrize(
    ("found", "phase"),
    [
        (job("TrainingJob", "QUEUED"), "Created"),
        (job("TrainingJob", "RUNNING", launcher=0, worker=2), "Created"),
        (job("TrainingJob", "RUNNING", launcher=1, worker=2), "Running"),
        (job("TrainingJob", "SUSPENDED"), "Suspended"),
        (job("TrainingJob", "SUCCEEDED"), "Succeeded"),
        (job("TrainingJob", "STOPPED"), "Failed"),
        (job("MarsJob", "RUNNING", supervisor=1, worker=0), "Created"),
        (job("MarsJob", "STOPPING", supervisor=0, worker=1), "Running"),
        (job("MarsJob", "QUEUED", tries=1), "Restarting"),
    ],
)
def test_a_state_has_a_word_of_the_other_system(found: dict[str, Any], phase: str) -> None:
    assert foreign_phase(found, []) == f"{found['dialect']}: {phase}"


def test_an_operation_that_has_not_ended_is_scaling() -> None:
    found = job("TrainingJob", "RUNNING", launcher=1)
    assert foreign_phase(found, [{"kind": "scale", "state": "ENDED"}]) == "TrainingJob: Running"
    assert foreign_phase(found, [{"kind": "scale", "state": "LAUNCHING"}]) == "TrainingJob: Scaling"


def test_every_state_has_a_word_and_other_dialects_have_none() -> None:
    for state in JobState:
        assert foreign_phase(job("TrainingJob", state.value), [])
        assert foreign_phase(job("MarsJob", state.value), [])
        assert foreign_phase(job("native", state.value), []) == ""
