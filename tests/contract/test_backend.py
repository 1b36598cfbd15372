"""What the store's port promises, asked of a real redis and of the double that the other tests use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.errors import ConflictError, ReplayedError, StaleLeaseError, UnreachableError
from grass.model.event_kind import EventKind
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState
from grass.model.reasons import ReasonCode
from grass.store.agent_store import AgentStore
from grass.store.api_store import ApiStore
from grass.store.backend import Backend
from grass.store.embedded import find_server
from grass.store.keys import ENDS_KEPT, Keys
from grass.store.node_store import ChangesGapError, NodeStore, Revoked
from grass.store.redis_backend import RedisBackend
from grass.store.sessions import Sighting
from grass.store.shared_store import ABSENT, SharedStore
from grass.wire.codec import encode
from grass.wire.desired import DesiredChange
from grass.wire.heartbeat import Heartbeat
from grass.wire.job_record import first_record
from grass.wire.membership_api import SharedValue
from grass.wire.tickets import StartJob
from tests.doubles.memory_backend import MemoryBackend
from tests.support.redis_server import RedisServer
from tests.support.said import HELLO, report
from tests.support.sessions import sighting
from tests.support.waiting import wait_until

KEYS = Keys("grass:test:")
JOB = Job("digits", {"worker": Component("worker", "true", replicas=2)}, ("worker",))


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.needs_redis)])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "memory":
        yield MemoryBackend()
        return
    server = request.getfixturevalue("redis_server")
    backend = server.backend("admin")
    backend.delete_prefix("")
    yield backend
    backend.close()


def submit(backend: Backend, job_id: str = "digits-1", job: Job = JOB) -> None:
    store = ApiStore(backend, KEYS)
    store.submit(job, job_id=job_id, user="ann", now=1.0, warnings=[], sighting=sighting(store))


def agent(backend: Backend) -> AgentStore:
    store = AgentStore(backend, KEYS)
    store.acquire("test")
    store.load()
    return store


def test_a_step_is_done_whole_or_not_at_all(backend: Backend) -> None:
    assert backend.apply([("SET", "a", "1"), ("HSET", "h", "f", "v")]) == 0
    assert backend.apply([("SET", "a", "2")], [("equals", "a", "1"), ("no-field", "h", "f")]) == 2
    assert backend.get("a") == "1"
    assert backend.apply([("SET", "a", "2")], [("equals", "a", "1"), ("no-field", "h", "g")]) == 0
    assert backend.get("a") == "2"


def test_a_field_is_swapped_only_if_it_is_what_was_thought(backend: Backend) -> None:
    backend.apply([("HSET", "h", "f", "old", "g", "old")])
    backend.apply([("HSWAP", "h", "f", "other", "new"), ("HSWAP", "h", "g", "other", ""), ("HSWAP", "h", "x", "", "y")])
    assert backend.hgetall("h") == {"f": "old", "g": "old"}
    backend.apply([("HSWAP", "h", "f", "old", "new"), ("HSWAP", "h", "g", "old", "")])
    assert backend.hgetall("h") == {"f": "new"}


def test_a_number_guards_below(backend: Backend) -> None:
    assert backend.apply([("SET", "n", "3")], [("below", "n", "3")]) == 0
    assert backend.apply([("SET", "n", "3")], [("below", "n", "3")]) == 1
    assert backend.apply([("INCR", "n")]) == 0
    assert backend.get("n") == "4"


def test_hashes_keep_many_fields_in_one_step(backend: Backend) -> None:
    fields = [text for number in range(9_000) for text in (f"field{number}", f"ü{number}")]
    backend.apply([("HSET", "big", *fields)])
    assert len(backend.hgetall("big")) == 9_000
    assert backend.hget("big", "field8999") == "ü8999"
    backend.apply([("HDEL", "big", *fields[::2])])
    assert backend.hgetall("big") == {}
    assert backend.hget("big", "field1") is None


def test_streams_are_read_in_order_after_an_id(backend: Backend) -> None:
    backend.apply([("XADD", "s", 0, "n", str(number)) for number in range(5)])
    entries = backend.stream("s", "0", 10)
    assert [fields["n"] for _, fields in entries] == ["0", "1", "2", "3", "4"]
    assert backend.stream("s", entries[2][0], 1) == [entries[3]]
    assert backend.newest("s") == entries[4]
    assert backend.newest("nothing") is None
    assert backend.backwards("s", None, 2) == [entries[4], entries[3]]
    assert backend.backwards("s", entries[3][0], 10) == [entries[2], entries[1], entries[0]]
    assert backend.backwards("s", entries[0][0], 10) == backend.backwards("nothing", None, 10) == []
    backend.apply([("XDEL", "s", entries[0][0], entries[1][0])])
    assert backend.stream("s", "0", 1) == [entries[2]]


def test_a_sorted_set_is_read_from_its_highest_member(backend: Backend) -> None:
    backend.apply([("ZADD", "z", 0, f"{number:03}/x") for number in (7, 1, 30, 9)])
    backend.apply([("ZADD", "z", 0, "007/x"), ("ZREM", "z", "009/x"), ("ZREM", "z", "not there")])
    assert (backend.size("z"), backend.size("nothing")) == (3, 0)
    assert backend.highest("z", None, 2) == ["030/x", "007/x"]
    assert backend.highest("z", "007/x", 10) == ["001/x"]
    assert backend.highest("z", "008", 10) == ["007/x", "001/x"]
    assert backend.highest("z", None, 0) == backend.highest("nothing", None, 5) == []


def test_a_large_hash_is_read_in_pieces_and_by_some_of_its_fields(backend: Backend) -> None:
    fields = {f"field{number}": "x" * 100 for number in range(3_000)}
    backend.apply([("HSET", "big", *(text for pair in fields.items() for text in pair))])
    read: dict[str, str] = {}
    for piece in backend.hash_pieces("big"):
        read.update(piece)
    assert read == fields
    assert list(backend.hash_pieces("nothing")) == [{}]
    assert backend.hget_many("big", ["field2", "none", "field1"]) == {"field2": "x" * 100, "field1": "x" * 100}
    assert backend.hget_many("big", []) == {}


def test_waiting_ends_with_the_first_entry_of_any_stream(backend: Backend) -> None:
    writer = threading.Timer(0.05, lambda: backend.apply([("XADD", "b", 0, "n", "1")]))
    writer.start()
    found = backend.wait({"a": "0-0", "b": "0-0"}, 10, 5)
    writer.join()
    assert [fields for _, fields in found["b"]] == [{"n": "1"}]
    assert backend.wait({"b": found["b"][0][0]}, 0.01, 5) == {}


def test_a_submission_is_durable_with_its_ticket_and_the_same_one_again_changes_nothing(backend: Backend) -> None:
    submit(backend)
    submit(backend)
    store = ApiStore(backend, KEYS)
    record = store.job("digits")
    assert record is not None and record.state is JobState.QUEUED
    assert record.reason is not None and record.reason.code is ReasonCode.SUBMITTED
    assert store.spec("digits-1") == JOB
    assert [message.body for message in agent(backend).receive(0)] == [StartJob(JOB, record)]


def test_a_request_that_was_seen_submits_nothing(backend: Backend) -> None:
    store = ApiStore(backend, KEYS)
    assert store.submit(JOB, job_id="digits-1", user="ann", now=1.0, warnings=[], sighting=sighting(store, "once"))
    agent(backend).commit([], [("HDEL", KEYS.live, "digits"), ("HDEL", KEYS.specs, "digits-1")])
    with pytest.raises(ReplayedError):
        store.submit(JOB, job_id="digits-1", user="ann", now=1.0, warnings=[], sighting=sighting(store, "once"))
    assert not store.sessions.first_sight(sighting(store, "once"))


def test_a_request_without_its_session_submits_nothing(backend: Backend) -> None:
    store = ApiStore(backend, KEYS)
    gone = Sighting("1" * 32, "{}", "a")
    with pytest.raises(ReplayedError):
        store.submit(JOB, job_id="digits-1", user="ann", now=1.0, warnings=[], sighting=gone)
    assert not store.sessions.first_sight(gone)
    assert store.job_index.counts() == {}


def test_a_name_is_taken_until_its_run_has_ended(backend: Backend) -> None:
    submit(backend)
    with pytest.raises(ConflictError, match="digits is still active"):
        submit(backend, "digits-2")
    agent(backend).commit([], [("HDEL", KEYS.live, "digits")])
    submit(backend, "digits-2")


def test_a_commit_takes_its_messages_and_is_never_done_twice(backend: Backend) -> None:
    submit(backend)
    store = agent(backend)
    messages = store.receive(0)
    store.commit(messages, [("INCR", "count")])
    assert store.receive(0) == []
    store._commit -= 1  # as if the reply had been lost, and the caller repeated it
    store.commit(messages, [("INCR", "count")])
    assert backend.get("count") == "1"
    assert agent(backend).receive(0) == []


def test_a_stale_master_agent_is_refused_and_changes_nothing(backend: Backend) -> None:
    submit(backend)
    old = agent(backend)
    messages = old.receive(0)
    new = agent(backend)
    with pytest.raises(StaleLeaseError):
        old.commit(messages, [("SET", "stolen", "1")])
    assert backend.get("stolen") is None
    assert [message.entry_id for message in new.receive(0)] == [message.entry_id for message in messages]


def test_a_node_follows_the_changes_of_its_desired_state_and_notices_a_gap(backend: Backend) -> None:
    node = NodeStore(backend, KEYS, "n1")
    start = node.desired()
    assert (start.entries, start.cursor) == ({}, "0-0")

    def change(number: int) -> None:
        backend.apply([("XADD", KEYS.changes("n1"), 0, "number", str(number), "body", f'{{"remove": ["{number}"]}}')])

    change(1)
    cursor, changes = node.changes(start.cursor, 1)
    assert changes == [DesiredChange(remove=("1",))]
    change(3)
    with pytest.raises(ChangesGapError):
        node.changes(cursor, 1)
    again = node.desired()
    change(4)
    cursor, changes = node.changes(again.cursor, 1)
    assert changes == [DesiredChange(remove=("4",))]
    backend.apply([("XADD", KEYS.revoked, 10, "node", "n2", "at", "5.5")])
    cursor, changes = node.changes(cursor, 0)
    assert changes == [Revoked({"n2": 5.5})]
    assert node.changes(cursor, 0)[1] == []
    again = node.desired()  # because the change could not be applied, as on a full disk
    assert node.changes(again.cursor, 0)[1] == [Revoked({"n2": 5.5})]


def test_reports_reach_the_master_agent_in_order(backend: Backend) -> None:
    store = agent(backend)
    store.watch("n1")
    NodeStore(backend, KEYS, "n1").report([report("hello", HELLO), report("tasks", {"events": []})])
    assert [(message.node, message.name) for message in store.receive(1)] == [("n1", "hello"), ("n1", "tasks")]


def test_while_nobody_reads_only_the_newest_heartbeat_is_kept_and_every_event(backend: Backend) -> None:
    store = agent(backend)
    store.watch("n1")
    node = NodeStore(backend, KEYS, "n1")
    for load in range(3):
        node.report([report("heartbeat", {"usage": {"load": load}})])
    node.report([report("tasks", {"events": []}), report("heartbeat", {"usage": {"load": 3}})])
    for load in range(4, 7):
        node.report([report("heartbeat", {"usage": {"load": load}})])
    found = store.receive(1)
    assert [message.name for message in found] == ["heartbeat", "tasks", "heartbeat"]
    assert [each.body.usage.load for each in found if isinstance(each.body, Heartbeat)] == [2, 6]
    store.commit(found, [])
    assert store.receive(0) == []


def test_events_are_numbered_and_can_be_waited_for(backend: Backend) -> None:
    store = ApiStore(backend, KEYS)
    before = store.last_event()
    store.log_event(EventKind.EXEC, "ann", "something happened", job="digits")
    news = store.wait_events(before, 1)
    [event] = news.events
    assert (event.record.kind, event.record.user, event.record.job) == ("exec", "ann", "digits")
    assert store.events()[-1].id == store.last_event() == news.last == event.id
    assert store.last_end() == "0-0"
    record = first_record(JOB, job_id="j-1", user="ann", now=1.0)
    backend.apply([("XADD", KEYS.ends, ENDS_KEPT, "id", "j-1", "record", encode(record))])
    ends = store.wait_ends("0-0", 1)
    assert ends.records == {"j-1": record}
    assert store.last_end() == ends.last > "0-0"
    assert store.wait_events(news.last, 0) == ([], event.id)


@pytest.mark.needs_redis
def test_a_server_that_was_away_for_any_number_of_attempts_is_reached_when_it_is_back() -> None:
    server = RedisServer(find_server())
    backend = server.backend()
    try:
        for _ in range(300):
            with pytest.raises(UnreachableError):
                backend.ping()
        server.start()
        for _ in range(300):  # and any number of times that it breaks off
            backend.ping()
            backend._forget_connections()
        backend.ping()
    finally:
        backend.close()
        server.remove()


def test_a_server_that_is_away_is_unreachable(tmp_path: Path) -> None:
    backend = RedisBackend(unix_socket_path=str(tmp_path / "none.sock"))
    with pytest.raises(UnreachableError):
        backend.ping()
    backend.close()


def test_a_value_that_tasks_share_is_compared_and_set(backend: Backend) -> None:
    store = SharedStore(backend, KEYS)
    assert store.get("j-1", "a") is ABSENT
    assert store.put("j-1", "a", SharedValue("r1", "one"), 60, "")
    assert not store.put("j-1", "a", SharedValue("r2", "two"), 60, "")
    assert not store.put("j-1", "a", SharedValue("r2", "two"), 60, "another")
    assert store.put("j-1", "a", SharedValue("r2", "two"), 60, "r1")
    assert store.get("j-1", "a").value == "two" and store.get("j-2", "a") is ABSENT
    assert not backend.put_if(KEYS.shared("j-1", "a"), "x", 60, "something else", "told")
    assert store.put("j-1", "a", SharedValue("r3", "three"), 60, None)
    assert store.delete("j-1", "a") and not store.delete("j-1", "a")


def test_a_listener_hears_of_each_change_of_the_values_of_its_channels(backend: Backend) -> None:
    store = SharedStore(backend, KEYS)
    listener = store.listen()

    def heard() -> tuple[str, str | None]:
        found: list[tuple[str, str | None]] = []
        wait_until(lambda: bool((message := listener.next(1.0)) and found.append(message) is None))
        return found[0]

    one, two = store.channel("one"), store.channel("two")
    try:
        listener.add(one)
        assert heard() == (one, None)
        store.put("two", "a", SharedValue("r1", "x"), 60, None)
        store.put("one", "a", SharedValue("r1", "x"), 60, None)
        assert heard() == (one, store.name("one", "a"))
        listener.add(two)
        assert heard() == (two, None)
        assert store.put("one", "b", SharedValue("r1", "x"), 60, "")
        assert store.put("one", "b", SharedValue("r2", "x"), 60, "r1")
        assert store.delete("two", "a")
        assert [heard() for _ in range(3)] == [(one, store.name("one", "b"))] * 2 + [(two, store.name("two", "a"))]
    finally:
        listener.close()


def test_of_many_that_compare_and_set_one_wins_each_time(backend: Backend) -> None:
    store = SharedStore(backend, KEYS)
    store.put("j-1", "count", SharedValue("0", "0"), 60, None)

    def add(name: str) -> None:
        done = 0
        while done < 5:
            before = store.get("j-1", "count")
            new = SharedValue(f"{name}-{done}", str(int(before.value) + 1))
            done += store.put("j-1", "count", new, 60, before.revision)

    threads = [threading.Thread(target=add, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert store.get("j-1", "count").value == "20"
