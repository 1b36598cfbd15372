"""A damaged record in the store is missing where it stands, and takes nothing else from anybody."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from grass.errors import GrassError
from grass.model.lifecycle import JobState
from grass.store.job_index import moved
from grass.wire.codec import encode as pack
from master.agent.node_run import NodeRun
from master.agent.records import node_record
from tests.support.api_world import ApiWorld
from tests.support.waiting import wait_until

JOB = {"name": "j", "components": {"w": {"command": "true"}}}


def test_lists_go_on_without_a_damaged_record(world: ApiWorld, caplog: pytest.LogCaptureFixture) -> None:
    client, keys = world.client(), world.keys
    started = client.start(JOB)
    headless, half = "{", '{"id":"half","user":"ann","state":"QUEUED","submitted":2.0}'
    listed = [op for name in ("headless", "half") for op in moved(keys, "ann", 2.0, name, None, JobState.QUEUED)]
    world.backend.apply(
        [
            ("HSET", keys.jobs, "headless", headless, "half", half),
            ("HSET", keys.nodes, "n1", pack(node_record(NodeRun("n1"))), "n2", "[]"),
            ("HSET", keys.schedules, "s", "null"),
            *listed,
        ]
    )
    for _ in range(2):
        assert [job.id for job in client.jobs()] == [started.id]
        assert client.newest_jobs(limit=2).more
        assert [node.name for node in client.nodes()] == ["n1"]
        assert client.schedules() == []
        assert client.status().nodes == {"JOINING": 1}
    assert sum("field headless" in record.message for record in caplog.records) == 1
    with pytest.raises(GrassError):
        client.job("headless")


def test_a_damaged_event_is_listed_as_such_and_waits_go_on(world: ApiWorld) -> None:
    client, keys = world.client(), world.keys
    started = client.start(JOB)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "j")
        wait_until(lambda: world.app.extensions["grass"].feed.listening, what="the wait")
        world.backend.apply(
            [
                ("XADD", keys.events, 0, "event", "{"),
                ("XADD", keys.events, 0, "other", "x"),
                ("XADD", keys.ends, 0, "id", "x", "record", "{"),
            ]
        )
        world.end_job(started.id)
        assert waiting.result(20).state == "SUCCEEDED"
    kinds = [event.kind for event in client.events()]
    assert kinds.count("event-unreadable") == 2
