"""How reports reach the master-agent: of a few nodes directly, of many by the wake-up stream and by sweeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grass.errors import NewerVersionError
from grass.store import agent_store
from grass.store.agent_store import AgentStore, Message
from grass.store.api_store import ApiStore
from grass.store.backend import Backend
from grass.store.keys import Keys
from grass.store.node_store import NodeStore
from grass.wire.envelope import Undecodable
from grass.wire.task_events import TaskEvents
from grass.wire.tickets import StopJob
from grass.wire.version import FORMAT
from tests.doubles.memory_backend import MemoryBackend
from tests.support.redis_server import RedisServer
from tests.support.said import HELLO, report
from tests.support.waiting import wait_until

KEYS = Keys("grass:test:")
READY = {"event": "ready", "key": "j-1/a.0/1"}
MANY = [f"n{number}" for number in range(agent_store._STREAMS_AT_ONCE + agent_store._FEW_NODES)]


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.needs_redis)])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "memory":
        yield MemoryBackend()
        return
    from grass.store.embedded import find_server

    server = RedisServer(find_server())
    try:
        server.start()
        connection = server.backend()
        yield connection
        connection.close()
    finally:
        server.remove()


def opened(backend: Backend, nodes: list[str]) -> AgentStore:
    store = AgentStore(backend, KEYS)
    store.acquire("test")
    store.load()
    for node in nodes:
        store.watch(node)
    return store


def events(message: Message) -> int:
    return len(message.body.events) if isinstance(message.body, TaskEvents) else 0


def taken(store: AgentStore, most: int = 20) -> list[Message]:
    """All that there is, each round committed; as the master-agent's loop does it."""
    found: list[Message] = []
    for _ in range(most):
        messages = store.receive(0)
        store.commit(messages, [])
        found += messages
    return found


def test_a_store_that_a_newer_grass_wrote_is_refused_before_anything_changes(backend: Backend) -> None:
    first = opened(backend, [])
    assert backend.get(KEYS.format) == str(FORMAT)
    backend.apply([("SET", KEYS.format, str(FORMAT + 1))])
    with pytest.raises(NewerVersionError, match=r"the store \(.*format\): written by a newer Grass"):
        opened(backend, [])
    assert (backend.get(KEYS.fence), backend.get(KEYS.format)) == (str(first.epoch), str(FORMAT + 1))


@pytest.mark.parametrize("nodes", [MANY[:3], MANY], ids=["few", "many"])
def test_every_report_is_taken_once(backend: Backend, nodes: list[str]) -> None:
    store = opened(backend, nodes)
    for node in nodes:
        NodeStore(backend, KEYS, node).report([report("hello", HELLO), report("tasks", {"events": []})])
    messages = taken(store)
    assert sorted((each.node, each.name) for each in messages) == sorted(
        (node, kind) for node in nodes for kind in ("hello", "tasks")
    )
    NodeStore(backend, KEYS, nodes[0]).report([report("tasks", {"events": []})])
    assert [(each.node, each.name) for each in taken(store)] == [(nodes[0], "tasks")]
    assert taken(opened(backend, nodes)) == []


def test_a_heartbeat_wakes_nobody_up_but_is_taken_by_the_next_sweep(backend: Backend) -> None:
    store = opened(backend, MANY)
    taken(store)
    NodeStore(backend, KEYS, "n7").report([report("heartbeat", {})])
    found: list[Message] = []

    def arrived() -> bool:
        found.extend(taken(store, 1))
        return bool(found)

    wait_until(arrived)
    assert [(each.node, each.name) for each in found] == [("n7", "heartbeat")]


def test_a_ticket_does_not_wait_until_all_nodes_are_read(backend: Backend) -> None:
    store = opened(backend, MANY)
    for node in MANY:
        NodeStore(backend, KEYS, node).report([report("hello", HELLO)])
    ApiStore(backend, KEYS).ticket(StopJob("x", "ann"))
    messages = store.receive(0)
    assert messages[0].name == "stop" and len(messages) <= 1 + agent_store._STREAMS_AT_ONCE


@pytest.mark.parametrize("nodes", [MANY[:3], MANY], ids=["few", "many"])
def test_a_round_bears_so_many_events_and_a_ticket_that_comes_is_in_the_next(
    backend: Backend, nodes: list[str]
) -> None:
    store, api = opened(backend, nodes), ApiStore(backend, KEYS)
    for node in nodes[:3]:
        NodeStore(backend, KEYS, node).report([report("tasks", {"events": [READY] * 400}) for at in range(4)])
    found = store.receive(0)
    assert sum(events(each) for each in found) == 1200
    api.ticket(StopJob("x", "ann"))
    store.commit(found, [])
    rest = store.receive(0)
    assert rest[0].name == "stop" and len(rest) == 4
    store.commit(rest, [])
    assert sum(events(each) for each in [*found, *rest, *taken(store)]) == 3 * 4 * 400
    assert taken(opened(backend, nodes)) == []


def test_a_flood_of_tickets_is_taken_in_order_and_reports_are_heard_meanwhile(backend: Backend) -> None:
    store, api = opened(backend, MANY[:3]), ApiStore(backend, KEYS)
    for number in range(3 * agent_store.TICKETS_AT_ONCE):
        api.ticket(StopJob(str(number), "ann"))
    NodeStore(backend, KEYS, "n1").report([report("heartbeat", {})])
    first = store.receive(0)
    assert [each.node for each in first] == [""] * agent_store.TICKETS_AT_ONCE + ["n1"]
    store.commit(first, [])
    NodeStore(backend, KEYS, "n2").report([report("heartbeat", {})])
    second = store.receive(0)
    assert [each.node for each in second if each.node] == ["n2"]
    store.commit(second, [])
    found = [each for each in [*first, *second, *taken(store)] if not each.node]
    ids = [each.body.id for each in found if isinstance(each.body, StopJob)]
    assert ids == [str(number) for number in range(3 * agent_store.TICKETS_AT_ONCE)]


def test_what_was_read_ahead_is_read_again_by_the_next_master_agent(backend: Backend) -> None:
    store = opened(backend, MANY[:3])
    NodeStore(backend, KEYS, "n1").report([report("tasks", {"events": [READY] * 600}) for _ in range(4)])
    store.commit(store.receive(0), [])
    assert sum(events(each) for each in taken(opened(backend, MANY[:3]))) == 2 * 600


def test_of_a_node_that_leaves_nothing_more_is_heard_even_if_it_was_read(backend: Backend) -> None:
    store = opened(backend, MANY[:3])
    NodeStore(backend, KEYS, "n1").report([report("tasks", {"events": [READY] * 600}) for _ in range(4)])
    store.commit(store.receive(0), [])
    store.unwatch("n1")
    assert taken(store) == []


@pytest.mark.parametrize("fields", [("body", "{"), ("kind", "tasks", "body", "[]"), ("kind", "tasks"), ("a", "b")])
def test_what_nobody_can_decode_is_taken_as_that_and_gone(backend: Backend, fields: tuple[str, ...]) -> None:
    for nodes in (MANY[:3], MANY):
        store = opened(backend, nodes)
        backend.apply([("XADD", KEYS.reports("n1"), 0, *fields), ("XADD", KEYS.wakeups, 100, *fields)])
        [message] = taken(store)
        assert isinstance(message.body, Undecodable) and message.body.problem
        assert taken(store) == []


def test_what_was_said_before_a_new_master_agent_listened_is_taken(backend: Backend) -> None:
    opened(backend, MANY)
    for node in MANY:
        NodeStore(backend, KEYS, node).report([report("hello", HELLO)])
    assert {each.node for each in taken(opened(backend, MANY))} == set(MANY)


def test_a_node_that_has_left_is_not_heard(backend: Backend) -> None:
    for nodes in (MANY[:3], MANY):
        store = opened(backend, nodes)
        taken(store)
        store.unwatch("n1")
        NodeStore(backend, KEYS, "n1").report([report("tasks", {"events": []})])
        assert taken(store) == []
