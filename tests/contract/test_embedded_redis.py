"""The server's configuration and users, held against every server that this machine has (PATH and wheels)."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from grass.errors import NotAllowedError
from grass.model.event_kind import EventKind
from grass.store import embedded
from grass.store.accounts import MOST_CONNECTIONS, MOST_STRANGERS, RedisAccounts
from grass.store.agent_store import AgentStore
from grass.store.api_store import ApiStore
from grass.store.embedded import Server
from grass.store.keys import Keys
from grass.store.node_store import NodeStore
from grass.store.queue_store import QueueLink, QueueStore
from grass.store.redis_backend import RedisBackend
from grass.wire.desired import DesiredAttempt
from grass.wire.envelope import Undecodable
from grass.wire.queue_api import ItemRecord, QueueAnswer, QueueOutcome, QueueRecord, TallyRecord
from grass.wire.tickets import StopJob
from tests.support.redis_server import RedisServer
from tests.support.said import HELLO, report
from tests.support.sessions import sighting
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis

KEYS = Keys("grass:test:")


def servers() -> list[Server]:
    found = [(path, origin, embedded._version(path)) for path, origin in embedded._candidates(None, embedded.IN_WHEELS)]
    return [Server(path, version, origin) for path, origin, version in found if version >= embedded.OLDEST]


@pytest.fixture(scope="module", params=servers(), ids=lambda server: f"{server.origin}-{server.version[0]}")
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    running = RedisServer(request.param)
    try:
        running.start()
        yield running
    finally:
        running.remove()


@pytest.fixture
def clients(server: RedisServer) -> Iterator[dict[str, redis.Redis]]:
    made = {
        user: redis.Redis(
            unix_socket_path=str(server.socket), username=server.login(user), password=word, decode_responses=True
        )
        for user, word in server.passwords.items()
    }
    yield made
    for client in made.values():
        client.close()


def refused(client: redis.Redis, *command: str) -> bool:
    try:
        client.execute_command(*command)
    except redis.exceptions.NoPermissionError:
        return True
    return False


def test_nobody_gets_in_without_a_password(server: RedisServer) -> None:
    with (
        redis.Redis(unix_socket_path=str(server.socket), retry=Retry(NoBackoff(), 0)) as anonymous,
        pytest.raises(redis.exceptions.AuthenticationError),
    ):
        anonymous.ping()


def test_each_facade_of_the_store_works_with_the_rights_of_its_user(server: RedisServer) -> None:
    api_backend, agent_backend, node_backend = (server.backend(user) for user in ("api", "agent", "node"))
    try:
        api = ApiStore(api_backend, KEYS)
        api.ticket(StopJob("x", "ann"))
        api.log_event(EventKind.EXEC, "user", "message")
        assert api.sessions.first_sight(sighting(api, "a")) and not api.sessions.first_sight(sighting(api, "a"))
        assert api.horizon() == 0.0
        api.keep_horizon(5.5)
        assert api.horizon() == 5.5
        assert (api.job_index.counts(), api.nodes(), api.schedules(), api.tasks("x")) == ({}, [], [], {})
        assert [event.record.message for event in api.events()] == ["message"]
        node = NodeStore(node_backend, KEYS, "local")
        node.report([report("hello", HELLO)])
        agent = AgentStore(agent_backend, KEYS)
        agent.acquire("me")
        agent.load()
        agent.watch("local")
        messages = agent.receive(0)
        assert {message.name for message in messages} >= {"stop", "hello"}
        order = ("XADD", KEYS.changes("local"), 100, "number", 1, "body", json.dumps({"set": {}}))
        agent.commit(messages, [order, ("HSET", KEYS.desired("local"), "a/b.0/1", '{"seq":1}')])
        assert node.desired().entries == {"a/b.0/1": DesiredAttempt(1)}
    finally:
        for backend in (api_backend, agent_backend, node_backend):
            backend.close()


@pytest.mark.parametrize("user", ["agent", "api", "node"])
def test_no_daemon_may_administrate_the_server_or_touch_keys_of_others(
    clients: dict[str, redis.Redis], user: str
) -> None:
    client = clients[user]
    assert refused(client, "CONFIG", "GET", "*")
    assert refused(client, "ACL", "LIST")
    assert refused(client, "KEYS", "*")
    assert refused(client, "FLUSHALL")
    assert refused(client, "SHUTDOWN", "NOSAVE")
    assert refused(client, "HGETALL", "grass:other:jobs")
    assert refused(client, "EVAL", "return redis.pcall('HSET', 'grass:other:jobs', 'a', 'b')", "1", "grass:other:jobs")


def test_only_the_api_reads_what_opens_a_session(server: RedisServer, clients: dict[str, redis.Redis]) -> None:
    key = KEYS.session("0" * 32)
    assert refused(clients["node"], "GET", key)
    assert refused(clients["node"], "SET", key, "x")
    assert not refused(clients["api"], "GET", key)


def test_only_the_api_writes_queues_and_a_node_only_asks_and_reads_its_own_answers(
    server: RedisServer, clients: dict[str, redis.Redis]
) -> None:
    backends = [server.backend(user) for user in ("api", "node")]
    api, link = QueueStore(backends[0], KEYS), QueueLink(backends[1], KEYS, "local")
    try:
        api.take("me")
        record = QueueRecord(user="ann", created=1.0, lease=2.0, tries=3)
        made = [*api.made("q", record), *api.changed("q", {"a": ItemRecord(1, "x")}, ["a"], TallyRecord(1))]
        link.ask("code", "body")
        [(entry, fields)] = api.calls("0-0", 0)
        outcome = QueueOutcome(id="1", answer=QueueAnswer(ready=1))
        made += [*api.kept("q", "s", {"a": ItemRecord(1, "x")})[0], *api.replied("local", entry, outcome)]
        assert fields == {"code": "code", "body": "body"} and not api.commit("another", made)
        assert api.commit("me", made + api.answered("r", outcome)) and link.answers("0-0", 0)[1] == [outcome]
        assert (api.records(), api.items("q")[0]) == ({"q": record}, {"a": ItemRecord(1, "x")})
        assert (api.calls("0-0", 0), api.earlier_answer("r")) == ([], outcome)
        assert api.snapshot("q", "s", None) == {"a": ItemRecord(1, "x")}
        assert api.commit("me", api.removed("q")) and api.records() == {}
    finally:
        for backend in backends:
            backend.close()
    node = clients["node"]
    for key in (KEYS.queues, KEYS.queue("q"), KEYS.queue_snapshots("q")):
        assert refused(node, "HSET", key, "a", "b") and refused(node, "HGETALL", key)
    assert refused(node, "SET", KEYS.queue_writer, "me") and refused(node, "XRANGE", KEYS.answers("other"), "-", "+")


def test_the_api_reads_operations_and_does_not_write_them(clients: dict[str, redis.Redis]) -> None:
    assert not refused(clients["api"], "HGETALL", KEYS.operations("a"))
    assert refused(clients["node"], "HSET", KEYS.operations("a"), "b", "c")


def test_a_node_that_joins_gets_a_user_that_outlives_the_server_and_its_files_being_written_anew(
    server: RedisServer,
) -> None:
    backend = server.backend()
    accounts = RedisAccounts(backend, server.prefix)
    for _ in range(2):
        accounts.add("n1", hashlib.sha256(b"word").hexdigest())
    accounts.add("n2", hashlib.sha256(b"other").hexdigest())
    accounts.keep({"local", "n1"})
    backend.close()
    server.stop()
    acl = server.files.acl
    acl.write_text(acl.read_text().replace(" +xdel", ""))  # as an earlier Grass had written it
    server.write_files()
    server.start()
    joined = RedisBackend(unix_socket_path=str(server.socket), username="node-n1", password="word")
    try:
        NodeStore(joined, KEYS, "n1").report([report("hello", HELLO)])
        for _ in range(2):
            NodeStore(joined, KEYS, "n1").report([report("heartbeat", {})])
        with pytest.raises(redis.exceptions.ResponseError, match=r"[Nn]o permissions|can't access"):
            NodeStore(joined, KEYS, "local").report([report("hello", HELLO)])
    finally:
        joined.close()
    backend = server.backend()
    assert {user for user in backend.users() if user.startswith("node-")} == {"node-local", "node-n1"}
    RedisAccounts(backend, server.prefix).remove("n1")
    backend.close()
    with pytest.raises(NotAllowedError):
        RedisBackend(unix_socket_path=str(server.socket), username="node-n1", password="word").ping()


def test_a_node_writes_nothing_but_its_own_reports(clients: dict[str, redis.Redis]) -> None:
    node = clients["node"]
    assert not refused(node, "XADD", KEYS.reports("local"), "*", "kind", "x", "body", "{}")
    assert refused(node, "XADD", KEYS.reports("other"), "*", "kind", "x")
    assert refused(node, "XADD", KEYS.tickets, "*", "kind", "x")
    assert refused(node, "HSET", KEYS.desired("local"), "a", "b")
    assert refused(node, "HSET", KEYS.membership("local"), "a", "b")
    assert refused(node, "HSET", KEYS.job_files, "a", "{}") and refused(node, "HGET", KEYS.job_files, "a")
    assert refused(node, "HGETALL", KEYS.membership("other"))
    assert not refused(node, "HGETALL", KEYS.membership("local"))
    assert refused(node, "HGETALL", KEYS.operations("a"))
    assert refused(node, "HSET", KEYS.restored, "record", "{}") and not refused(node, "HGET", KEYS.restored, "record")
    assert not refused(node, "SET", KEYS.shared("j-1", "a"), "x", "EX", "60")
    assert not refused(node, "GET", KEYS.shared("j-1", "a"))
    assert not refused(node, "PUBLISH", KEYS.shared_channel("j-1"), "a")
    assert refused(node, "PUBLISH", "another", "a")
    assert refused(node, "PSUBSCRIBE", KEYS.shared_channel("*"))
    assert refused(node, "SET", KEYS.fence, "9")
    assert refused(node, "GET", KEYS.fence)
    assert refused(node, "HGETALL", KEYS.jobs)


_ALLOWED = {
    *("ping", "hello", "auth", "client|setname", "client|id", "client|setinfo", "multi", "exec"),
    *("hget", "hgetall", "xread", "xrange", "xrevrange", "xadd", "xdel", "get", "set", "del", "watch"),
    *("pttl", "publish", "subscribe", "unsubscribe"),
}


def test_a_node_may_call_no_command_but_those_that_it_needs(
    server: RedisServer, clients: dict[str, redis.Redis]
) -> None:
    if server.server.version < (7, 0):
        pytest.skip("servers before 7.0 cannot test a command against a user's rights")
    names = list(_commands(clients["admin"].execute_command("COMMAND")))
    assert len(names) > 200
    user = embedded.node_user(server.node)
    may = set()
    for name in names:
        if not any("permissions to run" in said for said in _dry_runs(clients["admin"], user, name)):
            may.add(name)
    assert may <= _ALLOWED | {"reset", "quit"}, may - _ALLOWED


def _dry_runs(admin: redis.Redis, user: str, name: str) -> Iterator[str]:
    """Yield what the server says of the command with no argument, with one, with two …"""
    for count in range(8):
        words = [*name.split("|"), *[KEYS.reports("local")] * count]
        try:
            yield str(admin.execute_command("ACL", "DRYRUN", user, *words))
        except redis.exceptions.ResponseError as error:
            yield str(error)


def _commands(listed: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the names of all commands, of those with subcommands the subcommands."""
    for name, facts in listed.items():
        subcommands = facts.get("subcommands") or []
        if not subcommands:
            yield name.lower()
        for each in subcommands:
            yield (each[0] if isinstance(each, list) else each["name"]).lower()


def test_a_node_cannot_keep_the_server_busy_with_a_script(clients: dict[str, redis.Redis]) -> None:
    for command in (("EVAL", "while true do end", "0"), ("EVALSHA", "0" * 40, "0"), ("SCRIPT", "LOAD", "return 1")):
        assert refused(clients["node"], *command)


def test_a_node_cannot_remove_what_others_announce(server: RedisServer, clients: dict[str, redis.Redis]) -> None:
    if server.server.version < (7, 0):
        pytest.skip("servers before 7.0 know no selectors")
    entry = clients["node"].xadd(KEYS.wakeups, {"node": "local"})
    assert refused(clients["node"], "XDEL", KEYS.wakeups, str(entry))
    assert refused(clients["node"], "XRANGE", KEYS.wakeups, "-", "+")


def test_a_damaged_wake_up_stream_keeps_no_node_from_reporting_and_is_made_anew(server: RedisServer) -> None:
    raw = redis.Redis(
        unix_socket_path=str(server.socket), username=server.login("node"), password=server.passwords["node"]
    )
    node = RedisBackend(
        unix_socket_path=str(server.socket), username=server.login("node"), password=server.passwords["node"]
    )
    backend = server.backend("agent")
    try:
        backend.apply([("DEL", KEYS.reports(server.node)), ("DEL", KEYS.wakeups)])
        raw.xadd(KEYS.wakeups, {"node": "x"}, id=f"{2**64 - 1}-{2**64 - 1}")  # no id is higher, so nobody can append
        store = AgentStore(backend, KEYS)
        store.acquire("test")
        store.load()
        store.watch(server.node)
        NodeStore(node, KEYS, server.node).report([report("hello", HELLO)])
        [message] = store.receive(2.0)
        assert message.name == "hello"
        assert store.report_sizes()[server.node][0] == 1
        assert store.mend_wakeups(time.time())
        assert not store.mend_wakeups(time.time())
        raw.xadd(KEYS.wakeups, {"node": "x"})
        store.discard_reports(server.node)
        assert store.receive(0) == []
    finally:
        for each in (node, backend):
            each.close()
        raw.close()


def test_a_node_with_too_many_connections_is_found_and_loses_them_with_its_account(server: RedisServer) -> None:
    backend = server.backend()
    accounts = RedisAccounts(backend, server.prefix)
    accounts.add("n1", hashlib.sha256(b"word").hexdigest())
    clients = [
        redis.Redis(unix_socket_path=str(server.socket), username="node-n1", password="word")
        for _ in range(MOST_CONNECTIONS + 1)
    ]
    try:
        for client in clients:
            client.ping()
        assert accounts.crowded() == {"n1"}
        accounts.remove("n1")
        assert accounts.crowded() == set()
        with pytest.raises((redis.exceptions.ConnectionError, redis.exceptions.AuthenticationError)):
            clients[0].ping()
    finally:
        for client in clients:
            client.close()
        backend.close()


def test_connections_that_do_not_log_in_are_closed_when_they_are_too_many(server: RedisServer) -> None:
    backend = server.backend()
    accounts, strangers = RedisAccounts(backend, server.prefix), []
    try:
        for _ in range(MOST_STRANGERS + 20):
            strangers.append(socket.socket(socket.AF_UNIX))
            strangers[-1].connect(str(server.socket))
        wait_until(lambda: len(unknown(backend)) == MOST_STRANGERS + 20, what="all connections")
        accounts.crowded()
        assert len(unknown(backend)) == MOST_STRANGERS
    finally:
        for each in strangers:
            each.close()
        backend.close()


def unknown(backend: RedisBackend) -> list[dict[str, str]]:
    return [client for client in backend.clients() if client.get("user") == "default"]


def test_a_node_cannot_forge_its_own_desired_state(server: RedisServer, clients: dict[str, redis.Redis]) -> None:
    if server.server.version < (7, 0):
        pytest.skip("servers before 7.0 know no read-only keys")
    assert refused(clients["node"], "XADD", KEYS.changes("local"), "*", "body", "{}")


def test_the_api_cannot_write_what_only_the_master_agent_writes(
    server: RedisServer, clients: dict[str, redis.Redis]
) -> None:
    api = clients["api"]
    assert refused(api, "SET", KEYS.fence, "99") and refused(api, "HSET", KEYS.restored, "record", "{}")
    assert refused(api, "SET", KEYS.format, "99")
    assert refused(api, "XADD", KEYS.changes("local"), "*", "body", "{}")
    if server.server.version >= (7, 0):
        assert refused(api, "HSET", KEYS.nodes, "local", "{}")
        assert refused(api, "HSET", KEYS.tasks("x"), "a.0", "[]")
        assert refused(api, "HSET", KEYS.deleted, "x", "x-1")
        assert refused(api, "HSET", KEYS.findings, "x-1", "[]")
        assert refused(api, "HSET", KEYS.attempts("x"), "a.0/1", "[]")


def test_what_was_acknowledged_survives_a_kill_and_nothing_is_world_readable(server: RedisServer) -> None:
    backend = server.backend()
    backend.apply([("SET", "grass:test:kept", "yes"), ("HSET", "grass:test:step", "field", "of several writes")])
    backend.close()
    server.kill()
    server.start()
    backend = server.backend()
    try:
        assert backend.get("grass:test:kept") == "yes"
        assert backend.hget("grass:test:step", "field") == "of several writes"
    finally:
        backend.close()
    assert server.folder.stat().st_mode & 0o077 == 0
    assert server.files.conf.stat().st_mode & 0o077 == 0  # the server writes users.acl itself when a node joins
    assert not any(word in server.files.acl.read_text() for word in server.passwords.values())


def test_the_server_can_rewrite_its_log_and_reads_it_again(
    server: RedisServer, clients: dict[str, redis.Redis]
) -> None:
    admin = clients["admin"]
    assert admin.config_get("appendfsync") == {"appendfsync": "always"}
    assert admin.config_get("save") == {"save": ""}
    admin.set("grass:test:rewritten", "yes")
    admin.bgrewriteaof()
    wait_until(lambda: admin.info("persistence")["aof_rewrite_in_progress"] == 0)
    assert admin.info("persistence")["aof_last_bgrewrite_status"] == "ok"
    server.kill()
    server.start()
    assert admin.get("grass:test:rewritten") == "yes"


def test_bytes_that_a_node_writes_and_that_are_no_text_fail_no_reader(server: RedisServer) -> None:
    stream = KEYS.reports(server.node)
    raw = redis.Redis(
        unix_socket_path=str(server.socket), username=server.login("node"), password=server.passwords["node"]
    )
    backend = server.backend("agent")
    try:
        backend.apply([("DEL", stream)])  # other tests write there, too
        store = AgentStore(backend, KEYS)
        store.acquire("test")
        store.load()
        store.watch(server.node)
        raw.xadd(stream, {b"body": b'{"kind":"\xff\xfe"}', b"\xc3": b"\xff", b"at": b"nan"})
        [message] = store.receive(2.0)
        assert isinstance(message.body, Undecodable)
        assert message.ahead == 0.0
        store.commit([message], [])
        assert store.receive(0) == []
    finally:
        backend.close()
        raw.close()
