"""Documents that are made to cost time: each is answered at once, however it is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job
from grass.manifest.bounds import MAX_KEYS
from grass.manifest.fields import MAX_GUESSES
from grass.manifest.schedule import parse_schedule
from grass.manifest.settings import parse_settings

SECONDS = 2.0
"""Of processor time. Without the bounds, each of these documents took from 30 to 140 seconds."""


def component(**keys: Any) -> dict[str, Any]:
    return {"command": "c", **keys}


def job(components: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"name": "a", "components": components, **keys}


def refusal(document: dict[str, Any], parse: Callable[[dict[str, Any]], Any] = parse_job) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse(document)
    return [str(problem) for problem in caught.value.problems]


def unlike(number: int) -> str:
    """A word that resembles no key and few others."""
    return "".join(chr(ord("a") + number // 7**digit % 7 + 10) for digit in range(8))


def test_sixty_thousand_unknown_words_are_refused_by_their_number() -> None:
    words = {f"word{number}": 1 for number in range(60_000)}
    begun = time.process_time()
    message = f"components.x.resources: has 60,000 keys; the most is {MAX_KEYS:,}"
    assert refusal(job({"x": component(resources=words)})) == [message]
    assert time.process_time() - begun < SECONDS


def test_few_of_many_unknown_words_are_compared_with_the_known_ones() -> None:
    names = [unlike(number) for number in range(60 * 1000)]
    parts = {f"c{at}": component(resources=dict.fromkeys(names[at * 60 : at * 60 + 60], 1)) for at in range(1000)}
    begun = time.process_time()
    assert refusal(job(parts)) == [f"has more than {MAX_GUESSES} different unknown names; correct or remove some"]
    assert time.process_time() - begun < SECONDS


def test_a_task_has_a_bounded_number_of_custom_resources() -> None:
    assert refusal(job({"x": component(resources={"custom": {f"seat{n}": 1 for n in range(65)}})})) == [
        "components.x.resources: has more than 64 custom resources"
    ]


def test_custom_resources_may_have_similar_names() -> None:
    parsed = parse_job(job({"x": component(resources={"licence-a": 1, "licence-b": 2})})).job
    assert parsed.components["x"].resources.custom == (("licence-a", 1), ("licence-b", 2))


def test_a_thousand_components_that_depend_on_each_other_are_refused_at_once() -> None:
    names = [f"c{at}" for at in range(1000)]
    parts = {name: component(depends_on=[other for other in names if other != name]) for name in names}
    assert refusal(job(parts)) == ["has more than 100,000 values"]
    some = {name: {**part, "depends_on": part["depends_on"][-90:]} for name, part in parts.items()}
    (message,) = refusal(job(some))
    assert message == ("components.c910.depends_on: is a cycle, so none of these could ever start: c910 → c909 → c910")


def test_a_gang_above_a_dense_graph_is_checked_in_the_time_of_the_graph() -> None:
    parts = {f"c{at}": component(depends_on=[f"c{to}" for to in range(max(0, at - 95), at)]) for at in range(500)}
    parts |= {f"g{at}": component(depends_on=[f"c{to}" for to in range(400, 495)]) for at in range(500)}
    begun = time.process_time()
    assert len(parse_job(job(parts, gang=[f"g{at}" for at in range(500)])).job.gang) == 500
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize("key", ["success", "after", "gang", "components.x.avoid", "components.x.where.l"])
def test_a_list_of_names_is_bounded(key: str) -> None:
    names, part = [f"s{at}" for at in range(90_000)], component()
    *inside, last = key.split(".")
    document = job({"x": part})
    if not inside:
        document[last] = names
    elif last == "l":
        part["where"] = {"l": names}
    else:
        part[last] = names
    begun = time.process_time()
    assert refusal(document) == [f"{key}: must have at most 1,000 items, got 90,000"]
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize("parse", [parse_job, parse_schedule, parse_settings])
def test_values_and_depth_are_bounded_however_the_document_came(parse: Callable[[dict[str, Any]], Any]) -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    assert refusal({"a": [0] * 100_001}, parse) == ["has more than 100,000 values"]
    assert refusal({"a": deep}, parse) == ["is nested more than 32 levels deep"]
