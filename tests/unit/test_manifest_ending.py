"""How a job ends, as a native job file says: success, clean, ttl, deadline, restart."""

from __future__ import annotations

from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.native_writer import job_document
from grass.model.ending import PLAIN_ENDING, Clean, Ending, Enough, JobRestart
from grass.model.job import Job


def job(**more: Any) -> Job:
    parts = {"a": {"command": "true"}, "b": {"command": "true", "replicas": 2}}
    return parse_job({"name": "j", "components": parts, **more}).job


def problems(**more: Any) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        job(**more)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def test_without_keys_a_job_ends_as_ever() -> None:
    assert job().ending is PLAIN_ENDING
    assert job().success == ("a", "b")


def test_every_key_is_read() -> None:
    found = job(success={"b": "any"}, clean="none", ttl="1h", deadline="2h", restart={"limit": 2, "backoff": "5s"})
    assert found.success == ("b",)
    assert found.ending == Ending(Clean.NONE, 3600.0, 7200.0, JobRestart(2, 5.0), {"b": Enough.ANY})


def test_a_list_and_a_mapping_of_all_mean_the_same() -> None:
    assert job(success=["a"]) == job(success={"a": "all"})


def test_a_job_may_be_removed_at_once() -> None:
    assert job(ttl="0s").ending.ttl == 0.0


def test_a_restart_has_a_limit_by_default() -> None:
    assert job(restart={}).ending.restart == JobRestart(3, 1.0)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"success": {"b": "most"}}, 'success.b: must be one of all, any, index0; got "most"'),
        ({"success": {"c": "any"}}, "success.c: unknown component; the job has a, b"),
        ({"success": {}}, "success: must not be empty; without it, every component must succeed"),
        ({"clean": "some"}, 'clean: must be one of all, running, none; got "some"'),
        ({"deadline": "0s"}, "deadline: "),
        ({"ttl": -1}, "ttl: "),
        ({"restart": {"limit": 0}}, "restart.limit: must be at least 1, got 0"),
        ({"restart": {"limit": 1, "policy": "always"}}, "restart.policy: unknown key"),
        ({"restart": "always"}, "restart: must be a mapping"),
    ],
)
def test_bad_values_name_their_path(more: dict[str, Any], problem: str) -> None:
    assert any(found.startswith(problem) for found in problems(**more)), problems(**more)


@pytest.mark.parametrize("codes", [[], [0], [256], ["x"], "1"])
def test_bad_exit_codes_of_restarts_are_refused(codes: Any) -> None:
    with pytest.raises(ManifestError, match=r"components\.a\.restart\.codes"):
        parse_job({"name": "j", "components": {"a": {"command": "true", "restart": {"codes": codes}}}})


@pytest.mark.parametrize(
    ("keys", "fail_fast", "most"),
    [("max_failures: 3", False, 3), ("max_failures: 0, fail_fast: false", False, 0), ("fail_fast: true", True, None)],
)
def test_a_job_may_say_how_many_tasks_may_fail(keys: str, fail_fast: bool, most: int | None) -> None:
    text = f"{{name: j, {keys}, components: {{a: {{command: x}}, b: {{command: x}}}}}}"
    job = parse_job(read_document(text)).job
    assert (job.fail_fast, job.ending.max_failures) == (fail_fast, most)
    assert parse_job(job_document(job)).job == job


@pytest.mark.parametrize("keys", ["max_failures: -1", "max_failures: many", "max_failures: 1, fail_fast: true"])
def test_a_limit_of_failures_that_makes_no_sense_is_named(keys: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_job(read_document(f"{{name: j, {keys}, components: {{a: {{command: x}}}}}}"))
    assert [problem.path for problem in caught.value.problems] == ["max_failures"]
