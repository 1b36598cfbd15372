"""Jobs that are started behind active ones of their name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from grass.errors import ConflictError, InputError
from grass.model.job import After, AfterState
from tests.support.api_world import ApiWorld


def document(name: str = "train") -> dict[str, Any]:
    return {"name": name, "components": {"w": {"command": "true"}}}


def test_a_job_waits_for_all_active_jobs_of_its_name(world: ApiWorld) -> None:
    client = world.client()
    first = client.start(document(), after_namesake=True)
    second = client.start(document(), after_namesake=True)
    third = client.start(document(), after_namesake=True)
    assert [each.name for each in (first, second, third)] == ["train", "train.2", "train.3"]
    spec = world.store.spec(third.id)
    assert spec is not None and spec.after == tuple(
        After(each.id, AfterState.ENDED, past=True) for each in (first, second)
    )
    assert third.warnings == () and world.store.spec(first.id).after == ()  # type: ignore[union-attr]
    world.end_job(first.id)
    fourth = client.start(document(), after_namesake=True)
    assert fourth.name == "train"
    assert [each.job for each in world.store.spec(fourth.id).after] == [second.id, third.id]  # type: ignore[union-attr]


def test_without_it_an_active_name_is_refused_with_the_way_that_works(world: ApiWorld) -> None:
    client = world.client()
    client.start(document())
    with pytest.raises(ConflictError, match="wait for its end with `grass job start --after-namesake`"):
        client.start(document())
    client.start(document("n" * 63))
    with pytest.raises(InputError, match="too long for a number"):
        client.start(document("n" * 63), after_namesake=True)


def test_a_repeated_request_starts_nothing_twice(world: ApiWorld) -> None:
    client = world.client()
    client.start(document())
    once, again = (client.start(document(), job_id="train-01234567", after_namesake=True) for _ in range(2))
    assert (once.name, once.id) == (again.name, again.id) == ("train.2", "train.2-01234567")
    with pytest.raises(ConflictError, match="another user's job"):
        world.client("bob").start(document(), job_id="train-01234567", after_namesake=True)


def test_two_people_at_once_both_wait(world: ApiWorld) -> None:
    world.client().start(document())
    with ThreadPoolExecutor(8) as pool:
        clients = [world.client(user) for user in ("ann", "bob") for _ in range(4)]
        found = list(pool.map(lambda client: client.start(document(), after_namesake=True), clients))
    assert sorted(each.name for each in found) == [f"train.{number}" for number in range(2, 10)]
    waits = {each.name: len(world.store.spec(each.id).after) for each in found}  # type: ignore[union-attr]
    assert waits == {f"train.{number}": number - 1 for number in range(2, 10)}
