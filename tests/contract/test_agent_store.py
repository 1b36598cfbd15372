"""How reports reach the master-agent: of a few nodes directly, of many by the bell and by sweeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grass.store import agent_store
from grass.store.agent_store import AgentStore, Message
from grass.store.api_store import ApiStore
from grass.store.backend import Backend
from grass.store.keys import Keys
from grass.store.memory import MemoryBackend
from grass.store.node_store import NodeStore
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

KEYS = Keys("grass:test:")
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


def taken(store: AgentStore, most: int = 20) -> list[Message]:
    """All that there is, each round committed; as the master-agent's loop does it."""
    found: list[Message] = []
    for _ in range(most):
        messages = store.receive(0)
        store.commit(messages, [])
        found += messages
    return found


@pytest.mark.parametrize("nodes", [MANY[:3], MANY], ids=["few", "many"])
def test_every_report_is_taken_once(backend: Backend, nodes: list[str]) -> None:
    store = opened(backend, nodes)
    for node in nodes:
        NodeStore(backend, KEYS, node).report([("hello", {}), ("tasks", {"events": []})])
    messages = taken(store)
    assert sorted((each.node, each.kind) for each in messages) == sorted(
        (node, kind) for node in nodes for kind in ("hello", "tasks")
    )
    NodeStore(backend, KEYS, nodes[0]).report([("tasks", {"events": []})])
    assert [(each.node, each.kind) for each in taken(store)] == [(nodes[0], "tasks")]
    assert taken(opened(backend, nodes)) == []


def test_a_heartbeat_rings_no_bell_but_is_taken_by_the_next_sweep(backend: Backend) -> None:
    store = opened(backend, MANY)
    taken(store)
    NodeStore(backend, KEYS, "n7").report([("heartbeat", {})])
    found: list[Message] = []

    def arrived() -> bool:
        found.extend(taken(store, 1))
        return bool(found)

    wait_until(arrived)
    assert [(each.node, each.kind) for each in found] == [("n7", "heartbeat")]


def test_a_ticket_does_not_wait_until_all_nodes_are_read(backend: Backend) -> None:
    store = opened(backend, MANY)
    for node in MANY:
        NodeStore(backend, KEYS, node).report([("hello", {})])
    ApiStore(backend, KEYS).ticket("stop", {"id": "x"})
    messages = store.receive(0)
    assert messages[0].kind == "stop" and len(messages) <= 1 + agent_store._STREAMS_AT_ONCE


def test_what_was_said_before_a_new_master_agent_listened_is_taken(backend: Backend) -> None:
    opened(backend, MANY)
    for node in MANY:
        NodeStore(backend, KEYS, node).report([("hello", {})])
    assert {each.node for each in taken(opened(backend, MANY))} == set(MANY)


def test_a_node_that_has_left_is_not_heard(backend: Backend) -> None:
    for nodes in (MANY[:3], MANY):
        store = opened(backend, nodes)
        taken(store)
        store.unwatch("n1")
        NodeStore(backend, KEYS, "n1").report([("tasks", {"events": []})])
        assert taken(store) == []
