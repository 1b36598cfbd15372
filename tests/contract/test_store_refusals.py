"""A real server that answers and takes no writes: what the store's edge makes of it, for every server that is here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from grass.errors import StoreFullError, StoreRefusesError, UnreachableError
from grass.store import reserve
from grass.store.embedded import find_server
from grass.store.keys import Keys
from grass.store.node_store import NodeStore
from grass.store.redis_backend import RedisBackend
from grass.supervision.redis_reserve import Keeper
from grass.system import disk
from tests.contract.test_embedded_redis import servers
from tests.support.redis_server import RedisServer
from tests.support.said import HELLO, report
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis

KEY = "grass:test:key"


@pytest.fixture(scope="module", params=servers(), ids=lambda server: f"{server.origin}-{server.version[0]}")
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    running = RedisServer(request.param)
    try:
        running.start()
        yield running
    finally:
        running.remove()


@pytest.fixture
def admin(server: RedisServer) -> Iterator[redis.Redis]:
    client = redis.Redis(unix_socket_path=str(server.socket), username="admin", password=server.passwords["admin"])
    yield client
    client.config_set("maxmemory", 0)
    client.config_set("min-replicas-to-write", 0)
    client.config_set("save", "")
    client.close()


@pytest.fixture
def backend(server: RedisServer) -> Iterator[RedisBackend]:
    made = server.backend()
    yield made
    made.close()


def refusal(backend: RedisBackend) -> str:
    """What a step is refused with. Nothing was changed, and reads go on."""
    with pytest.raises(StoreRefusesError) as step:
        backend.apply([("SET", KEY, "new")])
    assert (step.value.exit_code, backend.get(KEY)) == (3, "old")
    return str(step.value)


def test_a_server_without_memory_refuses_writes(backend: RedisBackend, admin: redis.Redis) -> None:
    backend.apply([("SET", KEY, "old")])
    admin.config_set("maxmemory", 1)
    assert refusal(backend).startswith("the store refuses writes: it uses all the memory that `maxmemory` allows")
    admin.config_set("maxmemory", 0)
    assert backend.apply([("SET", KEY, "new")]) == 0


def test_a_server_without_its_replicas_refuses_writes(backend: RedisBackend, admin: redis.Redis) -> None:
    backend.apply([("SET", KEY, "old")])
    admin.config_set("min-replicas-to-write", 1)
    assert refusal(backend).startswith("the store refuses writes: the standby is away")


def test_a_server_that_cannot_save_refuses_writes(
    server: RedisServer, backend: RedisBackend, admin: redis.Redis
) -> None:
    backend.apply([("SET", KEY, "old")])
    (server.folder / "dump.rdb").mkdir()
    try:
        admin.config_set("save", "3600 1")
        admin.bgsave()
        wait_until(lambda: admin.info("persistence")["rdb_last_bgsave_status"] == "err", what="the failed save")
        assert refusal(backend).startswith("the store refuses writes: it cannot save its data on its disk")
    finally:
        (server.folder / "dump.rdb").rmdir()
        admin.bgsave()
        wait_until(lambda: admin.info("persistence")["rdb_last_bgsave_status"] == "ok", what="the save")


def test_a_server_that_runs_a_script_for_too_long_does_not_answer(
    server: RedisServer, backend: RedisBackend, admin: redis.Redis
) -> None:
    backend.apply([("SET", KEY, "old")])
    of_node = server.backend("node")
    node = NodeStore(of_node, Keys(server.prefix), server.node)
    node.report([report("hello", HELLO)])

    def run() -> None:
        with pytest.raises(redis.exceptions.ResponseError, match="killed"):
            admin.eval("while true do end", 0)

    with redis.Redis(connection_pool=admin.connection_pool) as other, ThreadPoolExecutor(1) as thread:
        ended = thread.submit(run)
        wait_until(lambda: busy(other), 10, "a busy server")
        for call in (
            backend.ping,
            lambda: backend.get(KEY),
            lambda: backend.apply([("SET", KEY, "new")]),
            lambda: node.report([report("hello", HELLO)]),
        ):
            with pytest.raises(UnreachableError, match="busy with a script"):
                call()
        other.script_kill()
        ended.result(10)
    node.report([report("hello", HELLO)])
    of_node.close()
    assert backend.get(KEY) == "old"


def busy(client: redis.Redis) -> bool:
    try:
        client.ping()
    except redis.exceptions.ResponseError as error:
        return str(error).startswith("BUSY ")
    return False


def test_a_replica_refuses_writes(backend: RedisBackend, admin: redis.Redis) -> None:
    backend.apply([("SET", KEY, "old")])
    admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        assert refusal(backend).startswith("the store refuses writes: it is a read-only replica")
    finally:
        admin.execute_command("REPLICAOF", "NO", "ONE")


@pytest.mark.needs_root
def test_a_full_disk_is_a_refusal_of_its_own_and_the_server_stays() -> None:
    server = RedisServer(find_server())
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32M", "tmpfs", str(server.folder)], check=True)
    try:
        server.write_files()
        server.start()
        backend = RedisBackend(
            server.folder, unix_socket_path=str(server.socket), username="admin", password=server.passwords["admin"]
        )
        backend.apply([("SET", KEY, "old")])
        filler = server.folder / "filler"
        filler.write_bytes(bytes(disk.free(server.folder)))
        for _ in range(3):
            with pytest.raises(StoreFullError, match=rf"the disk of {server.folder} is full \(\S+ free\)") as error:
                backend.apply([("SET", KEY, "new")])
            assert error.value.exit_code == 74
        assert backend.get(KEY) == "old"
        assert server.process is not None and server.process.poll() is None
        filler.unlink()
        assert backend.apply([("SET", KEY, "new")]) == 0
        backend.close()
    finally:
        server.kill()
        subprocess.run(["umount", str(server.folder)], check=True)
        server.remove()


@pytest.mark.needs_root
def test_what_ends_and_frees_is_written_to_a_full_disk_until_the_reserve_is_used_up() -> None:
    server = RedisServer(find_server())
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128M", "tmpfs", str(server.folder)], check=True)
    try:
        server.write_files()
        server.start()
        word = {"unix_socket_path": str(server.socket), "username": "admin", "password": server.passwords["admin"]}
        daemon, api = RedisBackend(server.folder, **word), RedisBackend(server.folder, of_users=True, **word)
        keeper = Keeper(server.folder, daemon)
        keeper.look()
        kept = reserve.left(server.folder)
        assert kept >= (128 << 20) // reserve.SHARE
        filler = server.folder / "filler"
        with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                pass
        keeper.look()
        assert disk.free(server.folder) < 1 << 20
        with pytest.raises(StoreFullError):
            api.apply([("SET", KEY, "a new job")])
        assert write_until_full(api, urgent=True) > kept // 2
        assert reserve.left(server.folder) > kept // 8  # for what the daemons decide
        assert write_until_full(daemon) > kept // 8
        assert server.process is not None and server.process.poll() is None
        filler.unlink()
        keeper.look()
        assert reserve.left(server.folder) >= kept * 3 // 4
        assert api.apply([("SET", KEY, "a new job")]) == 0
        for each in (daemon, api):
            each.close()
    finally:
        server.kill()
        subprocess.run(["umount", str(server.folder)], check=True)
        server.remove()


def write_until_full(backend: RedisBackend, *, urgent: bool | None = None) -> int:
    """Return how many bytes were written. No write fails in another way: redis would have ended."""
    value = "x" * 10_000
    for count in range(10_000):
        try:
            backend.apply([("SET", KEY, value)], urgent=urgent)
        except StoreFullError:
            return count * len(value)
    raise AssertionError("the disk is not full")


def test_redis_does_not_rewrite_its_file_while_the_disk_is_full(server: RedisServer, admin: redis.Redis) -> None:
    backend = server.backend()
    for full, percent in ((True, "0"), (False, "100")):
        Keeper(server.folder, backend, is_full=lambda _: full).look()  # noqa: B023 (called at once)
        assert admin.config_get("auto-aof-rewrite-percentage")["auto-aof-rewrite-percentage"] == percent
    backend.close()


def test_a_folder_that_is_gone_is_not_called_full(tmp_path: Path) -> None:
    assert not disk.is_full(tmp_path / "gone")
