"""A node-agent that finds a store which was restored from an older backup, and the records that it keeps for that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grass.model.reasons import ReasonCode
from grass.node_config import NodeHome
from grass.store.keys import RECORD
from grass.wire.backup import Restored
from grass.wire.codec import encode
from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.task_events import Ended, Started, Unclaimed
from node.agent.end_records import EndRecords
from node.runtime.protocol import Launch, Start
from tests.doubles.memory_backend import MemoryBackend
from tests.support.shepherd_run import cluster_config
from tests.unit.test_node_without_a_machine import KEYS, Node, Runtime


@pytest.fixture
def config(tmp_path: Path) -> NodeHome:
    return cluster_config(tmp_path)


def restored(config: NodeHome, made: float, at: float = 2e9, runtime: Runtime | None = None) -> Node:
    """Return a node whose store was restored from a backup of ``made``."""
    backend = MemoryBackend()
    record = encode(Restored(made=made, at=at))
    backend.apply([("HSET", KEYS.restored, RECORD, record)])
    return Node(config, backend, runtime, hold=0.3)


def test_an_attempt_that_ended_since_the_backup_is_not_run_again(config: NodeHome) -> None:
    with Node(config, MemoryBackend()).running() as before:
        before.wait(lambda: before.hellos)
        key = before.start("short")
        end = before.event(key, Ended)
        before.change(DesiredChange(remove=(key,)))
        before.wait(lambda: not before.machine.known)
    after = restored(config, made=end.at - 0.01)
    after.start("short")
    with after.running():
        assert after.event(key, Ended) == end
        assert not after.runtime.started
        other = after.start("short", 1)  # what did not run before does now
        assert after.event(other, Ended).code == 3 and list(after.runtime.started) == [other]
    again = restored(config, made=end.at - 0.01)  # the agent may be restarted at any time
    again.start("short")
    with again.running():
        assert again.event(key, Ended) == end


def test_a_node_without_records_says_so_and_starts_nothing_that_may_have_run(config: NodeHome) -> None:
    node = restored(config, made=1.0)  # long before this node began to record
    key = node.start("short")
    with node.running():
        reason = node.event(key, Ended).reason
        assert reason is not None and reason.code is ReasonCode.UNRECORDED
        assert not node.runtime.started


def running(*keys: str) -> Runtime:
    """A runtime in which attempts of the component `long` run already."""
    runtime = Runtime()
    runtime.define({"j-1/long": Launch(["true"], {}, None, 0.0)})
    runtime.start([Start(key, "j-1/long", {}) for key in keys])
    runtime.receive()
    runtime.restart()
    return runtime


def test_what_runs_is_adopted_and_what_nobody_desires_again_is_stopped_and_said(config: NodeHome) -> None:
    known, placed, unknown = (f"j-1/long.{index}/1" for index in range(3))
    node = restored(config, 1.0, runtime=running(known, placed, unknown))
    node.start("long")
    with node.running():
        node.event(known, Started)
        node.change(DesiredChange(set={placed: DesiredAttempt(1)}))
        node.event(placed, Started)
        node.wait(lambda: Unclaimed(unknown) in node.events)
        assert not [each for each in node.events if isinstance(each, Ended)]
    assert set(node.runtime.started) == {known, placed, unknown}  # each once, before the restore
    assert EndRecords(config.node_dir).past().restored == 2e9


def test_an_attempt_that_ends_before_it_is_desired_again_is_told_then(config: NodeHome) -> None:
    runtime = running()
    runtime.define({"j-1/short": Launch(["true"], {}, None, 0.0)})
    runtime.start([Start("j-1/short.5/1", "j-1/short", {})])
    runtime.receive()
    node = restored(config, 1.0, runtime=runtime)
    with node.running():
        runtime.restart()
        node.wait(lambda: [each for each in node.events if isinstance(each, Unclaimed)])
        [said] = [each for each in node.events if isinstance(each, Unclaimed)]
        assert (said.key, said.code) == ("j-1/short.5/1", 3) and said.ended is not None
        assert node.event(node.start("short", 5), Ended).code == 3
    assert list(runtime.started) == ["j-1/short.5/1"]


def test_a_running_agent_starts_anew_when_its_store_was_restored(config: NodeHome) -> None:
    node = Node(config, MemoryBackend())
    with node.running():
        key = node.start("long")
        node.event(key, Started)
        record = encode(Restored(made=1.0, at=2e9))
        gap = ("XADD", KEYS.changes(node.name), 100, "number", "9", "body", encode(DesiredChange()))
        node.backend.apply([("HDEL", KEYS.desired(node.name), key), ("HSET", KEYS.restored, RECORD, record), gap])
        node.thread.join(10)
        assert not node.thread.is_alive()
    assert node.runtime.started and not [each for each in node.events if isinstance(each, Ended)]  # the task runs on


def end(index: int) -> Ended:
    return Ended(key=f"j/c.{index}/1", at=float(index), code=index)


def test_records_are_bounded_and_say_since_when_they_have_no_gap(tmp_path: Path) -> None:
    records = EndRecords(tmp_path, most_bytes=1000)
    records.begin(1.0)
    for index in range(5):
        records.add(end(index))
    records.write(5.0)
    assert (records.past().since, sorted(records.past().ends)) == (1.0, [f"j/c.{index}/1" for index in range(5)])
    for index in range(5, 100):
        records.add(end(index))
        records.write(float(index))
    past = records.past()
    assert past.since is not None and past.since > 50.0
    assert all(end(index).key in past.ends for index in range(int(past.since), 100))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2500
    assert past.ends["j/c.99/1"] == end(99)


def test_a_torn_line_is_left_out_and_a_refused_write_is_a_gap(tmp_path: Path) -> None:
    records = EndRecords(tmp_path)
    records.begin(1.0)
    records.add(end(1))
    records.write(2.0)
    records.close()
    with (tmp_path / "ends.jsonl").open("ab") as file:
        file.write(b'{"event":"ended","key":"j/c\n')
    (tmp_path / "ends.jsonl").rename(tmp_path / "kept")
    (tmp_path / "ends.jsonl").symlink_to("/dev/full")
    records.add(end(2))
    records.write(3.0)  # the disk is full
    os.replace(tmp_path / "kept", tmp_path / "ends.jsonl")
    records.close()
    records.add(end(3))
    records.write(4.0)
    past = records.past()
    assert (past.since, sorted(past.ends)) == (4.0, ["j/c.1/1", "j/c.3/1"])
