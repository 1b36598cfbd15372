"""Which events the master-agent records, which of them the API selects, and that the guide names every kind."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from grass.model.event_kind import EventKind
from grass.model.job import Component, Job, Restart, RestartOn
from grass.model.resources import Resources
from grass.store.event_log import Event
from grass.wire.event_record import EventRecord
from master.api.events import EventFilter, Wanted
from tests.support.world import CALM, World

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "events.md").read_text()


def test_the_guide_names_every_kind_and_no_other() -> None:
    rows = [line.split("|")[1] for line in GUIDE.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([a-z-]+)`", "".join(rows))) == {kind.value for kind in EventKind}


def test_restarts_and_the_last_failure_of_a_task_are_events_and_many_restarts_are_few_events() -> None:
    world = World()
    world.add_node("n1")
    restart = Restart(RestartOn.ON_FAILURE, limit=100, backoff=1.0)
    world.submit(Job("j", {"t": Component("t", "x", restart=restart)}, ("t",)))
    for attempt in range(1, 102):
        world.end(f"j-1/t.0/{attempt}", code=3)
        world.advance(61, CALM)
    told = [event for event in world.events() if event["kind"].startswith("task-")]
    assert [event["kind"] for event in told] == ["task-restarts"] * (8 + 3) + ["task-failed"]
    assert told[-1] | {"time": 0} == {
        "time": 0,
        "kind": "task-failed",
        "message": "task j.t.0: ended with exit code 3",
        "job": "j",
        "task": "t.0",
        "run": "j-1",
    }


def test_a_preemption_says_for_which_job() -> None:
    world = World()
    world.add_node("n1", cpu=2)
    for name, priority, run in (("low", 0, 1), ("high", 5, 1)):
        part = Component("t", "x", resources=Resources(cpu=2000))
        world.submit(Job(name, {"t": part}, ("t",), priority=priority, preemptible=True), run, user=name)
    [event] = [event for event in world.events() if event["kind"] == "job-preempted"]
    assert (event["job"], event["by"]) == ("low", "high")


def test_a_query_selects_by_node_user_kind_and_time() -> None:
    record = EventRecord(100.0, "task-failed", "m", "ann", node="n1")
    yes = (Wanted(), Wanted("n1"), Wanted(user="ann"), Wanted(kinds=("job-*", "task-*")), Wanted(since=100.0))
    no = (Wanted("n2"), Wanted(user="bob"), Wanted(kinds=("task",)), Wanted(since=100.1), Wanted("n1", "bob"))
    assert [each.fits(record) for each in (*yes, *no)] == [True] * len(yes) + [False] * len(no)


def test_a_long_stream_hides_the_next_job_of_a_name_if_it_is_another_users() -> None:
    owner = SimpleNamespace(user="ann")
    store = SimpleNamespace(job=lambda _: owner)
    chosen = EventFilter(cast(Any, SimpleNamespace(api=SimpleNamespace(store=store), sees="ann".__eq__)), None)
    event = Event("1-0", EventRecord(1.0, "job-failed", "m", job="train"))
    assert chosen.matching([event]) == [event]
    owner.user = "bob"
    assert chosen.matching([event]) == []
