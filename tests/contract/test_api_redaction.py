"""What a reason tells about jobs of others: to a user that there is one, to who sees all jobs which."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from grass.model.reasons import Reason
from grass.wire import codec
from grass.wire.codec import builtins
from grass.wire.codec import encode as pack
from grass.wire.task_record import TaskRecord
from tests.support.api_world import ApiWorld
from tests.support.waiting import wait_until

JOB = {"components": {"w": {"command": "true", "replicas": 2}}}


def started(world: ApiWorld, name: str, user: str) -> str:
    return str(world.client(user).start({"name": name, **JOB}).id)


def reasons(secret: str, own: str) -> dict[str, dict[str, Any]]:
    return {
        "behind": {
            "code": "behind",
            "message": f"a task would fit now, but could delay job {secret}, which is served first; starts within 2m",
            "details": {"job": secret, "nodes": [], "starts_in": 120.0},
        },
        "preempted": {
            "code": "preempted",
            "message": "preempted by job secret, which has a higher priority",
            "details": {"job": secret},
        },
        "preempting": {
            "code": "preempting",
            "message": f"starts once the 2 tasks being preempted for it (from jobs {own}, {secret}) have ended",
            "details": {"jobs": [own, secret], "tasks": 2},
        },
    }


def said(world: ApiWorld, job: str, reason: dict[str, Any]) -> str:
    """Everything that the API tells ann of the job, and of one that would wait for the same reason."""
    client = world.client()
    first: list[Any] = [client.job(job), client.jobs(), client.tasks(job), client.why(job)]
    with ThreadPoolExecutor(1) as pool:
        asked = len(world.backend.stream(world.keys.tickets, "0", 100))
        plan = pool.submit(client.plan, {"name": "x", **JOB})
        wait_until(lambda: len(world.backend.stream(world.keys.tickets, "0", 100)) > asked)
        world.answer_plan(reason=reason)
        first.append(plan.result(10))
    return str(first)


@pytest.mark.parametrize("code", ["behind", "preempted", "preempting"])
def test_a_reason_names_jobs_of_others_only_to_those_who_see_them(world: ApiWorld, code: str) -> None:
    own, mine, secret = (started(world, *of) for of in (("own", "ann"), ("mine", "ann"), ("secret", "bob")))
    reason = reasons(secret, own)[code]
    part = {"replicas": 2, "counts": {"PENDING": 2}, "reason": reason}
    world.change_job(mine, reason=reason, components={"w": part})
    task = TaskRecord(reason=codec.Form[Reason](Reason).convert(reason))
    world.backend.apply([("HSET", world.keys.tasks(mine), "w.0", pack(task))])
    assert "secret" not in said(world, "mine", reason)
    for user in ("root", "eve"):
        view = world.client(user).job("mine")
        assert builtins(view.reason) == reason == builtins(view.components["w"].reason)
    hidden = world.client().job("mine").reason
    assert hidden is not None
    assert "another user" in hidden.message or "other users" in hidden.message
    assert ("jobs" in hidden.details) == (code == "preempting")
    assert hidden.details.get("jobs", [own]) == [own]
    assert hidden.details.get("starts_in") == reason["details"].get("starts_in")


def test_a_reason_that_names_own_jobs_is_not_changed(world: ApiWorld) -> None:
    own, mine = started(world, "own", "ann"), started(world, "mine", "ann")
    for reason in reasons(own, own).values():
        world.change_job(mine, reason=reason)
        assert builtins(world.client().job("mine").reason) == reason


def test_a_job_that_is_gone_is_not_named_either(world: ApiWorld) -> None:
    mine = started(world, "mine", "ann")
    world.change_job(mine, reason=reasons("gone-00000000", "gone-00000001")["behind"])
    assert "gone" not in str(world.client().job("mine"))


def test_waiting_for_a_job_names_no_other_either(world: ApiWorld) -> None:
    mine, secret = started(world, "mine", "ann"), started(world, "secret", "bob")
    world.change_job(mine, state="STOPPED", ended=2.0, reason=reasons(secret, mine)["preempted"])
    assert "secret" not in str(world.client().wait("mine", 5))
