"""The event log as a client reads it: filters, and pages from the newest to the oldest."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.api.run_events import events_of_run
from grass.system.clock import wall
from grass.wire.codec import encode
from grass.wire.event_record import EventRecord
from grass.wire.event_views import EventView
from master.api.events import SIGN_OF_LIFE
from tests.support.api_world import ApiWorld, api_world
from tests.support.job_views import job_view

COUNT = 2_500
RARE = "node-lost"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiWorld]:
    """A cluster with many events of bob, and two of a node: the oldest and the newest."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with api_world(tmp_path_factory.mktemp("events", numbered=True)) as world:
        put(world, EventRecord(1.0, RARE, "node n1: LOST", node="n1"))
        for number in range(COUNT):
            put(world, EventRecord(2.0 + number, "job-submitted", f"{number}", "bob", job="j"))
        put(world, EventRecord(5_000.0, RARE, "node n2: LOST", node="n2"))
        yield world


def put(world: ApiWorld, event: EventRecord) -> None:
    world.backend.apply([("XADD", world.keys.events, 0, "event", encode(event))])


def pages(world: ApiWorld, user: str, limit: int, **wanted: Any) -> list[tuple[EventView, ...]]:
    """All pages from the newest event back."""
    client = world.client(user)
    found: list[tuple[EventView, ...]] = []
    before: str | None = "9999999999999-0"
    while before:
        page = client.older_events(before, limit, **wanted)
        found.append(page.events)
        before = page.before
    return found


def test_pages_have_each_event_once_and_end_at_the_oldest(world: ApiWorld) -> None:
    found = pages(world, "eve", 1_000)
    assert [len(page) for page in found] == [1_000, 1_000, COUNT + 2 - 2_000]
    texts = [event.message for page in found[::-1] for event in page]
    assert texts == ["node n1: LOST", *map(str, range(COUNT)), "node n2: LOST"]


def test_a_filter_that_selects_few_is_answered_from_the_whole_log(world: ApiWorld) -> None:
    assert [event.node for page in pages(world, "eve", 1, kind=[RARE])[::-1] for event in page] == ["n1", "n2"]
    assert [event.node for event in world.client("eve").events(kind=[RARE], limit=5)] == ["n1", "n2"]
    assert [event.node for event in world.client("eve").events(kind=["node-*"], limit=1)] == ["n2"]
    assert [event.node for event in world.client("eve").events(since=4_000.0)] == ["n2"]


def test_a_long_search_shows_that_the_server_is_alive(tmp_path: Path) -> None:
    with api_world(tmp_path) as world:
        put(world, EventRecord(1.0, RARE, "node n1: LOST", node="n1"))
        for number in range(SIGN_OF_LIFE):
            put(world, EventRecord(2.0, "job-submitted", f"{number}", "bob", job="j"))
        client = world.client("eve")
        pieces = list(client._transport.stream("GET", f"/v1/events?kind={RARE}"))
        assert [(piece["after"] == "", piece["open"]) for piece in pieces] == [(True, True), (False, False)]
        assert [event.node for event in client.events(kind=[RARE])] == ["n1"]


def test_a_run_has_its_own_events_and_not_those_of_the_next_run_with_its_name(tmp_path: Path) -> None:
    with api_world(tmp_path) as world:
        now = wall()
        first, second, third = ((now + at, now + at + 1, now + at + 2) for at in (0, 10, 20))
        for times in (first, second, third):
            for time, kind in zip(times, ("job-submitted", "job-running", "job-failed"), strict=True):
                put(world, EventRecord(time, kind, "", "bob", job="j"))
        client = world.client("bob")
        ended = job_view(id="j-2", submitted=second[0], ended=second[-1])
        active = job_view(id="j-3", submitted=third[0])
        for run, times in ((ended, second), (active, third)):
            assert [event.time for event in events_of_run(client, run, 10)] == list(times)
        assert [event.time for event in events_of_run(client, ended, 2)] == list(second[1:])
        at = now + 12.5  # after the end of the second run, while the third one might already go on
        for name in ("j-2", "j-3"):
            put(world, EventRecord(at, "notification-failed", name, "bob", job="j", run=name))
        assert events_of_run(client, ended, 1)[0].message == "j-2"


def test_pages_of_a_user_have_nothing_of_jobs_of_others(world: ApiWorld) -> None:
    assert {event.kind for page in pages(world, "ann", 100) for event in page} == {RARE}
