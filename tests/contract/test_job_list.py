"""`GET /v1/jobs`: which jobs a query selects, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from grass.errors import InputError, NotAllowedError
from tests.support.api_world import ApiWorld


def start(world: ApiWorld, name: str, **tags: str) -> str:
    job = {"name": name, "components": {"w": {"command": "true"}}, "tags": tags}
    return str(world.client().start(job).id)


def names(world: ApiWorld, **query: Any) -> list[str]:
    return [job.name for job in world.client().jobs(**query)]


def test_jobs_are_selected_by_name_tag_state_and_time(world: ApiWorld) -> None:
    start(world, "train-1", team="red", run="1")
    done = start(world, "train-2", team="blue")
    start(world, "eval-1", team="red")
    world.end_job(done)
    assert names(world, name="train-*") == ["train-1"]
    assert names(world, name="train-*", all=True) == ["train-1", "train-2"]
    assert names(world, tag=["team=red"]) == ["train-1", "eval-1"]
    assert names(world, tag=["team=red", "run"]) == ["train-1"]
    assert names(world, tag="team", all=True) == ["train-1", "train-2", "eval-1"]
    assert names(world, state=["succeeded"]) == ["train-2"]
    assert names(world, state="QUEUED") == ["train-1", "eval-1"]
    second = world.client().job("train-2").submitted
    assert names(world, since=second, all=True) == ["train-2", "eval-1"]
    assert names(world, since=second + 1e6, all=True) == []
    assert world.client().job("train-1").tags == {"team": "red", "run": "1"}


@pytest.mark.parametrize("text", ['é "quoted" \\ /', "\x7f\u2028\U0001f33f", "a, b"])
def test_a_tag_is_found_whatever_its_characters(world: ApiWorld, text: str) -> None:
    start(world, "train", **{text: text})
    start(world, "eval", **{"other": "x"})
    assert names(world, tag=[text]) == names(world, tag=[f"{text}={text}"]) == ["train"]
    assert names(world, tag=[f"{text}=x"]) == []


def test_a_page_of_a_selection_says_whether_there_is_more(world: ApiWorld) -> None:
    for number in range(5):
        start(world, f"j{number}", parity="odd" if number % 2 else "even")
    page = world.client().newest_jobs(limit=2, tag=["parity=even"])
    assert ([job.name for job in page.jobs], page.total, page.more) == (["j2", "j4"], None, True)
    assert names(world, tag=["parity=even"], limit=2) == ["j2", "j4"]
    before = world.client().job("j2").id
    assert names(world, tag=["parity=even"], before=before) == ["j0"]


def test_what_selects_nothing_that_there_could_be_is_refused(world: ApiWorld) -> None:
    for wrong in ({"state": ["DONE"]}, {"tag": ["=x"]}, {"tag": [""]}):
        with pytest.raises(InputError):
            world.client().jobs(**wrong)


def test_users_list_only_their_own_jobs(world: ApiWorld) -> None:
    start(world, "mine")
    bob = world.client("bob")
    bob = world.client("bob")
    assert bob.jobs(user="bob") == []
    with pytest.raises(NotAllowedError):
        bob.jobs(user="ann")
    assert [job.name for job in world.client("root").jobs(user="ann")] == ["mine"]
