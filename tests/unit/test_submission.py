from __future__ import annotations

from typing import Any

import pytest

from grass.errors import InputError, ManifestError, UndecodableError
from grass.model.lifecycle import NodeState
from grass.model.resources import Resources
from grass.wire.calls import ScheduleSubmission, Submission
from grass.wire.codec import Form
from grass.wire.node_record import NodeRecord
from master.api.submission import Terms, accept_job, accept_schedule
from master.api.suitability import Allowed

NODE = NodeRecord(name="n", state=NodeState.READY, resources=Resources(2000, 4 << 30))


def document(**component: Any) -> dict[str, Any]:
    return {"name": "j", "components": {"w": {"command": "true", **component}}}


def submission(body: dict[str, Any]) -> Submission:
    return Form[Submission](Submission).convert(body)


def accept(body: dict[str, Any], nodes: list[NodeRecord] | None = None) -> Any:
    return accept_job(submission(body), lambda: [NODE] if nodes is None else nodes, lambda name: f"{name}-00000000")


def test_a_job_gets_an_id_if_the_client_chose_none() -> None:
    assert accept({"manifest": document()}).job_id == "j-00000000"
    assert accept({"manifest": document(), "id": "j-12345678"}).job_id == "j-12345678"


@pytest.mark.parametrize("job_id", ["k-12345678", "j-1234567", "j-12345678/..", "j-1234567G", "j", "../j-12345678"])
def test_an_id_that_does_not_belong_to_the_name_is_refused(job_id: Any) -> None:
    with pytest.raises(InputError, match="id: must be"):
        accept({"manifest": document(), "id": job_id})


def test_components_run_in_the_folder_of_their_file() -> None:
    assert accept({"manifest": document(), "cwd": "/home/ann"}).job.components["w"].base == "/home/ann"
    assert accept({"manifest": document()}).job.components["w"].base is None
    there = accept_job(
        submission({"manifest": document(), "cwd": "/home/ann"}),
        list,
        lambda name: f"{name}-00000000",
        Terms(keep_cwd=False),
    )
    assert there.job.components["w"].base is None


def test_a_folder_that_is_not_absolute_is_refused() -> None:
    with pytest.raises(InputError, match="cwd: must be an absolute path"):
        accept({"manifest": document(), "cwd": "src"})


def test_what_no_node_can_hold_is_accepted_unless_strict() -> None:
    large = document(resources={"cpu": 8})
    accepted, said = accept({"manifest": large}), "components.w.resources: needs 8 cpu per task; the largest node has 2"
    assert accepted.job.components["w"].resources.cpu == 8000 and accepted.warnings == (said,)
    with pytest.raises(ManifestError) as caught:
        accept({"manifest": large, "strict": True})
    [problem] = caught.value.problems
    assert str(problem) == said


def test_what_a_quota_never_allows_is_said_at_once() -> None:
    terms = Terms(allowed=Allowed("ann", {"cpu": 4000, "space": 1}))
    parts = {"w": {"command": "c", "replicas": 3, "resources": {"cpu": 2}}}
    for gang, said in ((False, ()), (True, ("ann may use 4 cpu, and this needs 6 cpu at once",))):
        body = submission({"manifest": {"name": "a", "gang": gang, "components": parts}})
        warnings = accept_job(body, list, lambda name: f"{name}-00000000", terms).warnings
        assert tuple(each.partition("quota: ")[2] for each in warnings) == said


def test_strict_refuses_warnings_too() -> None:
    pictured = document(image="busybox", runtime="process")
    assert len(accept({"manifest": pictured}).warnings) == 1
    with pytest.raises(ManifestError, match="image"):
        accept({"manifest": pictured, "strict": True})


def test_nodes_are_read_only_for_jobs_that_ask_for_more_than_a_little_cpu_and_memory() -> None:
    def unread() -> list[NodeRecord]:
        raise AssertionError("not needed")

    accept_job(submission({"manifest": document(resources={"cpu": 1})}), unread, lambda name: f"{name}-00000000")
    with pytest.raises(AssertionError, match="not needed"):
        accept_job(submission({"manifest": document(resources={"gpu": 1})}), unread, lambda name: f"{name}-00000000")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"manifest": []},
        *({"manifest": document(), **more} for more in ({"mode": "x"}, {"strict": "yes"}, {"id": 7})),
    ],
)
def test_a_body_of_the_wrong_form_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(UndecodableError):
        accept(body)


def test_the_jobs_of_a_schedule_run_in_its_folder_too() -> None:
    batch = {"name": "s", "jobs": ["a", "b"], "components": {"w": {"command": "true"}}}
    schedule = accept_schedule(ScheduleSubmission(manifest=batch, cwd="/home/ann"), lambda: [NODE]).schedule
    assert [(job.name, job.components["w"].base) for job in schedule.jobs] == [("a", "/home/ann"), ("b", "/home/ann")]


MARO = {
    "mode": "grass",
    "name": "j",
    "components": {"actor": {"num": 2, "command": "a"}, "learner": {"num": 1, "command": "b"}},
}


@pytest.mark.parametrize(
    ("port", "found"),
    [(0, "has no redis for tasks"), (19999, "has its redis for tasks at localhost:19999"), (6379, "")],
)
def test_a_job_of_maro_is_told_that_its_redis_is_elsewhere(port: int, found: str) -> None:
    body = {"manifest": MARO}
    job = accept_job(submission(body), list, lambda name: f"{name}-00000000", Terms(task_redis=port))
    schedule = {"mode": "grass", "name": "s", "job_names": ["a", "b"], "components": MARO["components"]}
    told = accept_schedule(
        Form[ScheduleSubmission](ScheduleSubmission).convert({"manifest": schedule}), list, Terms(task_redis=port)
    )
    for warnings in (job.warnings, told.warnings):
        assert len(warnings) == bool(found) and found in "".join(warnings)


@pytest.mark.parametrize(
    "manifest", [document(replicas=2), {**MARO, "components": {"alone": {"num": 1, "command": "a"}}}]
)
def test_a_job_that_needs_no_redis_is_told_nothing(manifest: dict[str, Any]) -> None:
    assert accept({"manifest": manifest}).warnings == ()
