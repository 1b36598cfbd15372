"""Which tasks wait for machines on Azure, from what the cluster says of jobs."""

from __future__ import annotations

import pytest

from grass.azure.autoscale import Need
from grass.manifest import parse_job
from grass.model.job import Job
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.provision.azure.needs import waiting
from grass.wire.job_record import ComponentRecord
from grass.wire.job_views import JobView
from tests.support.sample_views import job

LACKS = Reason(ReasonCode.NO_FREE_RESOURCES, "waits")


def spec(name: str) -> Job:
    components = {"t": {"command": "x", "replicas": 3, "resources": {"cpu": 2}}, "u": {"command": "x"}}
    return parse_job({"name": "train", "components": components}).job


def view(part: Reason | None = LACKS, whole: Reason | None = None, **fields: object) -> JobView:
    counts = {TaskState.PENDING: 2, TaskState.RUNNING: 1}
    components = {"t": ComponentRecord(3, counts, part), "u": ComponentRecord(1, {TaskState.RUNNING: 1}, LACKS)}
    values = {"state": JobState.RUNNING, "reason": whole, "components": components, "held": None, **fields}
    return job("train-1a2b3c4d", **values)


def test_pending_tasks_that_lack_resources_are_needs_with_what_each_needs() -> None:
    assert waiting([view()], spec) == [Need("t of job train-1a2b3c4d", spec("").components["t"].resources, 2)]


@pytest.mark.parametrize("code", [ReasonCode.NO_NODES, ReasonCode.TOO_LARGE, ReasonCode.GANG, ReasonCode.BEHIND])
def test_a_queued_job_gives_the_reason_of_its_parts(code: ReasonCode) -> None:
    [need] = waiting([view(None, Reason(code, "waits"), state=JobState.QUEUED)], spec)
    assert need.count == 2


@pytest.mark.parametrize(
    "without",
    [
        view(None),
        view(Reason(ReasonCode.QUOTA, "of the user")),
        view(Reason(ReasonCode.CONSTRAINTS, "no such label")),
        view(held="ann"),
        view(state=JobState.SUSPENDED),
    ],
)
def test_what_more_machines_would_not_end_needs_none(without: JobView) -> None:
    assert waiting([without], spec) == []


def test_a_job_that_is_being_deleted_needs_nothing() -> None:
    assert waiting([view()], lambda _: None) == []
