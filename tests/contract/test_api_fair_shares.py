"""`/v1/shares`: who has how much, and whose jobs are served next."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grass.cli.shares import fair_share_lines
from grass.model.lifecycle import NodeState
from grass.model.resources import Resources
from grass.system import clock
from grass.wire.api_figures import KeptAnswer
from grass.wire.codec import encode as pack
from grass.wire.usage_record import UsageRecord
from grass.wire.user_views import FairSharesView
from master.agent.node_run import NodeRun
from master.agent.records import node_record
from master.api.fair_shares import decayed
from master.monitor.page_server import PageServer
from tests.support.api_world import LOCAL, ApiWorld, api_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with api_world(tmp_path) as world:
        node = NodeRun("n1", total=Resources(4000, 8 << 30))
        node.state = NodeState.READY
        world.backend.apply([("HSET", world.keys.nodes, "n1", pack(node_record(node)))])
        yield world


def job(name: str, priority: int = 0) -> dict[str, object]:
    return {
        "name": name,
        "priority": priority,
        "components": {"w": {"command": "true", "resources": {"cpu": 1, "memory": "64MiB"}}},
    }


def test_who_has_less_is_first_and_the_queue_is_in_the_order_of_service(world: ApiWorld) -> None:
    running = world.client("ann").start(job("running")).id
    part = {"w": {"replicas": 1, "counts": {"RUNNING": 1}, "reason": None}}
    world.change_job(running, state="RUNNING", counts={"RUNNING": 1}, components=part)
    for user, name, priority in (("ann", "a", 0), ("bob", "b", 0), ("ann", "urgent", 9)):
        world.client(user).start(job(name, priority))
    usage = [pack(UsageRecord(value, clock.steady(), clock.boot_id())) for value in (300.0, 100.0)]
    world.backend.apply([("HSET", world.keys.usage, "ann", usage[0], "bob", usage[1])])
    view = world.client("root").shares()
    assert [(user.user, round(user.share, 2), round(user.past, 2)) for user in view.users] == [
        ("bob", 0.0, 0.25),
        ("ann", 0.25, 0.75),
    ]
    assert view.users[1].running == 1 and view.users[1].waiting == 2
    assert [each.job.rpartition("-")[0] for each in view.queue] == ["urgent", "b", "a"]
    assert view.queue[2].why == "priority 0; ann has 25% now, and had 75% recently"
    lines = fair_share_lines(view, 100)
    assert "bob" in lines[1] and any("priority 9" in line for line in lines)
    seen = world.client("bob").shares().queue
    assert [each.job is None for each in seen] == [True, False, True], "names of others' jobs are not told"


def test_what_users_have_is_told_with_their_quotas(tmp_path: Path) -> None:
    quota = {"cpu": 2000, "gpu": 1000, "space": 2 << 30}
    master = replace(LOCAL, quotas={"ann": quota}, default_quota={"memory": 1 << 30})
    with api_world(tmp_path, master=master) as world:
        running = world.client("ann").start(job("running")).id
        world.client("bob").start(job("waits"))
        waits = {"RUNNING": 1, "ASSIGNED": 7}  # seven tasks wait on the node behind the one that runs
        part = {"w": {"replicas": 8, "counts": waits, "reason": None, "allocated": 1}}
        world.change_job(running, state="RUNNING", counts=waits, components=part)
        world.backend.apply([("HSET", world.keys.kept_files, "ann", '{"space":1073741824,"files":7}')])
        view = world.client("root").shares()
    quotas = {user.user: user.quota for user in view.users}
    assert quotas == {"ann": quota, "bob": {"memory": 1 << 30}}
    lines = fair_share_lines(view, 160)
    assert "cpu 1 of 2, files 7, gpu 0 of 1, memory 64MiB, space 1GiB of 2GiB" in lines[1]
    assert "memory 0B of 1GiB" in lines[2]


def test_what_users_keep_is_measured_when_somebody_asks(tmp_path: Path) -> None:
    """The monitor has old figures first. Without a monitor, those of the master-agent are shown."""
    answers = [
        KeptAnswer({"ann": {"space": 4096, "files": 1}}, 60.0),
        KeptAnswer({"ann": {"space": 8192, "files": 2}}, 0.0),
    ]
    master = replace(LOCAL, quotas={"ann": {"files": 9}})
    with api_world(tmp_path, master=master) as world:
        world.backend.apply([("HSET", world.keys.kept_files, "ann", '{"space":0,"files":7}')])
        assert "files 7 of 9" in fair_share_lines(world.client("root").shares(), 160)[1]
        monitor = PageServer(world.config.socket("monitor"), lambda _: b"", lambda: answers.pop(0))
        monitor.start()
        try:
            assert "files 2 of 9" in fair_share_lines(world.client("root").shares(), 160)[1]
        finally:
            monitor.stop()
    assert answers == []


def test_use_decays_and_that_of_an_earlier_boot_counts_as_of_now() -> None:
    records = {"a": UsageRecord(8.0, 100.0, "boot"), "b": UsageRecord(8.0, 999.0, "earlier")}
    assert decayed(records, 120.0, "boot", 10.0) == {"a": 2.0, "b": 8.0}


def test_an_empty_cluster_has_no_shares(world: ApiWorld) -> None:
    assert world.client("eve").shares() == FairSharesView((), ())
    assert len(fair_share_lines(FairSharesView((), ()), 80)) == 1
