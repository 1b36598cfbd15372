"""The change feed as a client sees it: a snapshot, then what changed, and a new snapshot when the cursor is too old."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.errors import InputError, NotAllowedError, NotFoundError
from grass.model.lifecycle import TaskState
from grass.model.schedule import Schedule, ScheduleKind
from grass.store.change_feed import ChangeFeed, Cursor
from grass.wire.change_views import ChangePiece, Removed
from grass.wire.codec import encode as pack
from grass.wire.event_record import EventRecord
from grass.wire.feed_entry import FeedEntry
from grass.wire.schedule_record import first_record
from grass.wire.task_record import TaskRecord
from master.agent.node_run import NodeRun
from master.agent.records import node_record
from tests.doubles.memory_backend import MemoryBackend
from tests.support.api_world import ApiWorld, api_world

JOB = {"name": "j", "components": {"w": {"command": "true", "replicas": 2}}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with api_world(tmp_path) as world:
        announce(world, FeedEntry())  # a master-agent has always written something
        yield world


def announce(world: ApiWorld, entry: FeedEntry, *ops: Any, kept: int = 0) -> None:
    """Write the changes and their names in one step, as the master-agent does."""
    world.backend.apply([*ops, ("XADD", world.keys.feed, kept, "body", pack(entry))])


def put_node(world: ApiWorld, name: str) -> None:
    record = pack(node_record(NodeRun(name)))
    announce(world, FeedEntry(nodes=(name,)), ("HSET", world.keys.nodes, name, record))


def until(pieces: Iterator[ChangePiece], key: str) -> ChangePiece:
    """The next piece with something under ``key``."""
    return next(piece for piece in pieces if getattr(piece, key) not in (False, (), Removed()))


def test_a_snapshot_comes_first_and_then_each_change_as_it_is_now(world: ApiWorld) -> None:
    client = world.client()
    put_node(world, "n1")
    job_id = client.start(JOB).id
    pieces = client.changes()
    first = next(pieces)
    assert first.snapshot and [job.id for job in first.jobs] == [job_id]
    assert [node.name for node in first.nodes] == ["n1"]
    assert first.events[-1].kind == "job-submitted" and first.counts == {"QUEUED": 1}
    assert first.store is None and first.time > 0

    world.change_job(job_id, "job-running", state="RUNNING")
    announce(world, FeedEntry(jobs=(job_id,)))
    piece = until(pieces, "jobs")
    assert not piece.snapshot and piece.jobs[0].state == "RUNNING" and piece.counts == {"RUNNING": 1}

    announce(world, FeedEntry(nodes=("n1",)), ("HDEL", world.keys.nodes, "n1"))
    assert until(pieces, "removed").removed == Removed(nodes=("n1",))
    world.backend.apply([("HDEL", world.keys.jobs, job_id)])
    announce(world, FeedEntry(removed={job_id: "ann"}))
    assert until(pieces, "removed").removed == Removed(jobs=(job_id,))


def test_a_watched_job_comes_with_its_tasks_and_then_only_with_those_that_changed(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    pieces = client.changes("j")
    first = next(pieces)
    assert first.snapshot and [task.task for task in first.tasks] == ["w.0", "w.1"]
    put_node(world, "n1")  # concerns no watcher of a job
    task = pack(TaskRecord(TaskState.RUNNING, 1, "n1"))
    announce(world, FeedEntry(tasks={job_id: ("w.1",)}), ("HSET", world.keys.tasks(job_id), "w.1", task))
    piece = until(pieces, "tasks")
    assert [(task.task, task.state, task.node) for task in piece.tasks] == [("w.1", "RUNNING", "n1")]
    assert piece.nodes == ()


def test_a_wide_job_comes_in_several_pieces_of_one_snapshot(world: ApiWorld) -> None:
    client = world.client()
    client.start({"name": "wide", "components": {"w": {"command": "true", "replicas": 450}}})
    pieces = client.changes("wide")
    found = [next(pieces) for _ in range(3)]
    assert [len(piece.tasks) for piece in found] == [200, 200, 50]
    assert [piece.complete for piece in found] == [False, False, True]


def test_a_job_that_was_scaled_comes_as_a_new_snapshot_because_tasks_may_have_gone(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    pieces = client.changes("j")
    next(pieces)
    world.change_job(job_id, components={"w": {"replicas": 1, "counts": {"PENDING": 1}, "reason": None, "holes": [0]}})
    announce(world, FeedEntry(jobs=(job_id,)))
    assert [task.task for task in until(pieces, "snapshot").tasks] == ["w.1"]


def test_a_user_gets_nothing_of_jobs_of_others(world: ApiWorld) -> None:
    secret = world.client("bob").start({**JOB, "name": "secret"}).id
    pieces = world.client("ann").changes()
    assert "secret" not in str(next(pieces))
    world.change_job(secret, "job-running", state="RUNNING")
    announce(world, FeedEntry(jobs=(secret,)))
    announce(world, FeedEntry(removed={secret: "bob"}))
    put_node(world, "n1")  # the end of what is looked at
    seen = ""
    for piece in pieces:
        seen += str(piece)
        if piece.nodes:
            break
    assert "secret" not in seen
    with pytest.raises(NotAllowedError):
        next(world.client("ann").changes("secret"))
    assert "secret" in str(next(world.client("eve").changes()))  # a viewer sees all jobs


def test_the_stream_goes_on_where_it_was_when_the_server_restarts(world: ApiWorld) -> None:
    pieces = world.client().changes()
    assert next(pieces).snapshot
    put_node(world, "n1")
    until(pieces, "nodes")
    world.stop()
    put_node(world, "n2")
    world.serve()
    piece = until(pieces, "nodes")
    assert [node.name for node in piece.nodes] == ["n2"] and not piece.snapshot


def test_who_missed_entries_that_are_gone_gets_a_new_snapshot(world: ApiWorld) -> None:
    pieces = world.client().changes()
    put_node(world, "n1")
    assert next(pieces).snapshot
    world.stop()
    for _ in range(5):
        announce(world, FeedEntry(nodes=("n1",)), kept=2)
    world.serve()
    assert until(pieces, "snapshot").nodes[0].name == "n1"


@pytest.mark.parametrize("cursor", ["x", "1-1", "1-1/x", "9" * 30 + "-1/1-1", "١-1/1-1"])
def test_a_cursor_that_is_none_is_refused(world: ApiWorld, cursor: str) -> None:
    from urllib.parse import quote

    with pytest.raises(InputError, match="after: must be the cursor"):
        next(world.client()._transport.stream("GET", f"/v1/changes?after={quote(cursor)}"))


def test_a_user_sees_no_schedules_of_others(world: ApiWorld) -> None:
    spec = Schedule("nightly", ScheduleKind.CRON, (), cron="0 3 * * *")
    record = ("HSET", world.keys.schedules, "nightly", pack(first_record(spec, "bob")))
    announce(world, FeedEntry(schedules=("nightly",)), record)
    pieces = {user: world.client(user).changes() for user in ("ann", "bob", "eve")}
    seen = {user: [each.name for each in next(found).schedules] for user, found in pieces.items()}
    assert seen == {"ann": [], "bob": ["nightly"], "eve": ["nightly"]}
    announce(world, FeedEntry(schedules=("nightly",)), record)
    skipped = EventRecord(1.0, "schedule-skipped", "schedule nightly: skipped", schedule="nightly")
    world.backend.apply([("XADD", world.keys.events, 0, "event", pack(skipped))])
    put_node(world, "n1")
    assert until(pieces["bob"], "schedules")
    for piece in pieces["ann"]:
        assert "nightly" not in str(piece)
        if piece.nodes:
            break
    assert [list(world.client(user).events(kind="schedule-*")) == [] for user in pieces] == [True, False, False]
    gone = ("HDEL", world.keys.schedules, "nightly")
    announce(world, FeedEntry(removed_schedules={"nightly": "bob"}), gone)
    put_node(world, "n2")
    assert until(pieces["bob"], "removed").removed == Removed(schedules=("nightly",))
    for piece in pieces["ann"]:
        assert "nightly" not in str(piece)
        if any(node.name == "n2" for node in piece.nodes):
            break


def test_a_deleted_schedule_whose_name_is_used_again_is_gone_for_its_owner_only(world: ApiWorld) -> None:
    pieces = {user: world.client(user).changes() for user in ("ann", "bob")}
    assert all(next(found).snapshot for found in pieces.values())
    spec = Schedule("nightly", ScheduleKind.CRON, (), cron="0 3 * * *")
    record = ("HSET", world.keys.schedules, "nightly", pack(first_record(spec, "ann")))
    announce(world, FeedEntry(schedules=("nightly",), removed_schedules={"nightly": "bob"}), record)
    assert until(pieces["bob"], "removed").removed == Removed(schedules=("nightly",))
    piece = until(pieces["ann"], "schedules")
    assert [view.name for view in piece.schedules] == ["nightly"] and piece.removed == Removed()


def test_a_job_that_does_not_exist_cannot_be_watched(world: ApiWorld) -> None:
    with pytest.raises(NotFoundError, match="nobody"):
        next(world.client().changes("nobody"))


def test_a_cursor_of_another_store_reaches_nothing(world: ApiWorld) -> None:
    feed = ChangeFeed(MemoryBackend(), world.keys)
    assert feed.reaches(Cursor("0-0", "0-0")) and not feed.reaches(Cursor("7-0", "0-0"))


def test_a_damaged_entry_is_skipped(world: ApiWorld) -> None:
    pieces = world.client().changes()
    next(pieces)
    world.backend.apply([("XADD", world.keys.feed, 0, "body", "{")])
    put_node(world, "n1")
    assert until(pieces, "nodes").nodes[0].name == "n1"
