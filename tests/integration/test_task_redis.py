"""The redis for tasks: at the port of the settings, found by tasks under MARO's names, and gone with the cluster.

On several hosts, nodes forward to it; here both ends are on this machine.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
import redis

from grass.cli.exits import Exit
from grass.store.accounts import MOST_STRANGERS
from grass.store.embedded import TASK_REDIS_CONF, TASK_REDIS_KEPT, TASKS_USER, find_server, write_task_redis
from grass.store.redis_server import RedisServer
from grass.supervision.task_redis_watch import close_silent, watch
from grass.tls import ServerContext
from grass.tls_files import MASTER, TlsFiles, identity
from node.agent.task_redis import Proof, TaskRedis
from tests.integration.test_cli import Grass
from tests.support.certificates import cluster_files
from tests.support.example_run import free_port
from tests.support.waiting import wait_until

ASK = (
    "import os, socket; s = socket.create_connection((os.environ['REDIS_HOST'], int(os.environ['REDIS_PORT']))); "
    "s.sendall(b'PING\\r\\n'); print(s.recv(9), os.environ['GRASS_REDIS_URL'])"
)


@pytest.fixture
def cluster() -> Iterator[tuple[Grass, Path, int]]:
    port = free_port()
    home = Path(tempfile.mkdtemp(prefix="grass-redis-", dir="/tmp"))
    settings = home / "settings.yml"
    settings.write_text(f"name: local\nresources: {{cpu: 2, gpu: 0}}\ntask_redis: {{port: {port}}}\n")
    try:
        yield Grass(home), settings, port
    finally:
        Grass(home)("delete", "local", "--yes")
        shutil.rmtree(home)


def test_tasks_find_a_redis_of_their_own(cluster: tuple[Grass, Path, int]) -> None:
    grass, settings, port = cluster
    with socket.create_server(("127.0.0.1", port)):
        taken = grass("create", str(settings))
        assert taken.returncode == Exit.BAD_INPUT and "task_redis: {port: NUMBER}" in taken.stderr
    grass.good("create", str(settings))
    said = grass.good("run", "--cpu", "0.1", "--", sys.executable, "-c", ASK)
    assert said == f"b'+PONG\\r\\n' redis://localhost:{port}\n"
    assert "task-redis" in {daemon["name"] for daemon in grass.json("status")["daemons"]}
    grass.good("delete", "local", "--yes")
    with socket.create_server(("127.0.0.1", port)):
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    """The redis for tasks as it runs on the master of several hosts, with the password `secret`; its port."""
    port = free_port()
    write_task_redis(tmp_path, "127.0.0.1", port, {TASKS_USER: "secret", "admin": "of the master"})
    process = subprocess.Popen(
        [find_server().path, tmp_path / TASK_REDIS_CONF], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: listens(port), what="the redis")
        yield port
    finally:
        process.kill()
        process.wait()


def test_connections_that_say_nothing_are_closed_when_they_are_too_many(server: int) -> None:
    admin = RedisServer(host="127.0.0.1", port=server, username="admin", password="of the master")
    with closing(forwarded(server)) as client, ExitStack() as silent:
        client.set("kept", "1")
        for _ in range(MOST_STRANGERS + 20):
            silent.enter_context(socket.create_connection(("127.0.0.1", server)))
        wait_until(lambda: count(admin) == MOST_STRANGERS + 20, what="all connections")
        close_silent(admin)
        assert count(admin) == MOST_STRANGERS and client.get("kept") == b"1"
    admin.close()


def test_what_a_stopped_redis_for_tasks_was_told_to_keep_is_there_once_more_and_only_once(tmp_path: Path) -> None:
    port, kept = free_port(), tmp_path / TASK_REDIS_KEPT
    write_task_redis(tmp_path, "127.0.0.1", port, {TASKS_USER: "secret", "admin": "of the master"})

    def run(told: bool) -> bytes | None:
        words = [find_server().path, tmp_path / TASK_REDIS_CONF]
        process = subprocess.Popen(words, cwd="/", stdout=subprocess.DEVNULL)
        admin = RedisServer(host="127.0.0.1", port=port, username="admin", password="of the master")
        try:
            wait_until(lambda: listens(port), what="the redis")
            with closing(redis.Redis(port=port, password="secret")) as client:
                found = client.get("theirs")
                client.set("theirs", "kept")
            if told:
                assert not admin.save_at_end(tmp_path / "elsewhere") and admin.save_at_end(tmp_path)
            else:
                stop = threading.Event()
                threading.Thread(target=watch, args=(admin, kept, stop), daemon=True).start()
                wait_until(lambda: not kept.exists(), what="its end once it was read")
                stop.set()
        finally:
            admin.close()
            process.terminate()
            process.wait(20)
        return found

    assert run(told=True) is None and kept.exists()
    assert run(told=False) == b"kept" and not kept.exists()
    assert run(told=False) is None


def count(admin: RedisServer) -> int:
    return sum(client["cmd"] == "NULL" for client in admin.clients())


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def forwarded(server: int, password: str = "secret", tls: Proof | None = None) -> redis.Redis:
    """A client without a password, at the port where a task of a node finds the redis."""
    port = free_port()
    TaskRedis(port, f"127.0.0.1:{server}", password, tls).start()
    client = redis.Redis(port=port)
    wait_until(lambda: answers(client), what="the forwarder")
    return client


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.exceptions.ResponseError as error:
        return "does not answer" in str(error)
    except redis.exceptions.ConnectionError:
        return False


def test_tasks_of_a_node_reach_the_redis_of_the_master_and_can_change_no_file_there(server: int) -> None:
    with closing(forwarded(server)) as one, closing(forwarded(server)) as other:
        one.hset("group:actor", "actor.0", "x" * 300_000)
        assert other.hlen("group:actor") == 1 and other.hget("group:actor", "actor.0") == b"x" * 300_000
        listener = other.pubsub()
        listener.subscribe("news")
        assert listener.get_message(timeout=10)["type"] == "subscribe"
        one.publish("news", "here")
        assert listener.get_message(timeout=10)["data"] == b"here"
        listener.close()
        for words in ("CONFIG SET dir /tmp", "SAVE", "FLUSHALL", "SHUTDOWN", "REPLICAOF 10.0.0.1 1", "ACL LIST"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                one.execute_command(*words.split())


def test_who_reaches_the_port_of_the_master_needs_the_password_of_the_nodes(server: int) -> None:
    with closing(redis.Redis(port=server)) as stranger, pytest.raises(redis.exceptions.AuthenticationError):
        stranger.get("group:actor")
    with closing(forwarded(server, "guess")) as thief, pytest.raises(redis.exceptions.ResponseError):
        thief.get("group:actor")


def test_the_master_changes_the_configuration_and_nothing_else(server: int) -> None:
    """As it has a server read a renewed certificate. The server of this machine has no TLS."""
    with closing(redis.Redis(port=server, username="admin", password="of the master")) as admin:
        assert admin.config_get("tls-*-file") is not None and admin.config_set("maxclients", 99)
        for words in ("GET group:actor", "ACL LIST", "SAVE", "CONFIG REWRITE", "CONFIG RESETSTAT"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                admin.execute_command(*words.split())


@contextmanager
def over_tls(server: int, files: TlsFiles) -> Iterator[int]:
    """A port that speaks TLS with the master's certificate, in front of the server, as a redis with TLS would."""
    listener = socket.create_server(("127.0.0.1", 0))
    context = ServerContext(files)

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(16384):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def answer(connection: socket.socket) -> None:
        with (
            connection,
            suppress(OSError),
            context.current().wrap_socket(connection, server_side=True) as inside,
            socket.create_connection(("127.0.0.1", server)) as outside,
        ):
            back = threading.Thread(target=pump, args=(outside, inside))
            back.start()
            pump(inside, outside)
            back.join()

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,)).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_nodes_speak_tls_with_the_master_and_with_nobody_else(server: int, tmp_path: Path) -> None:
    files = cluster_files(tmp_path, "x", "n1", "n2")
    proof = Proof(files.nodes["n1"], identity("x", MASTER))
    with over_tls(server, files.master) as port, closing(forwarded(port, tls=proof)) as client:
        assert client.set("key", "value") and client.get("key") == b"value"
    with (
        over_tls(server, files.nodes["n2"]) as port,
        closing(forwarded(port, tls=proof)) as client,
        pytest.raises(redis.exceptions.ResponseError, match="does not answer"),
    ):
        client.get("key")
