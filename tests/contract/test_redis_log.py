"""The log of each server that this machine has, damaged on purpose, and redis' own tool on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.provision.redis_log import find_damage
from grass.store.embedded import Server
from tests.contract.test_embedded_redis import servers
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.needs_redis

KEYS = [f"grass:test:{number}" for number in range(20)]


@pytest.fixture(params=servers(), ids=lambda server: f"{server.origin}-{server.version[0]}")
def stopped(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A server that wrote 20 keys and was killed."""
    server = RedisServer(request.param)
    try:
        server.start()
        backend = server.backend()
        for key in KEYS:
            backend.apply([("SET", key, "value")])
        backend.close()
        server.kill()
        yield server
    finally:
        server.remove()


def log_of(server: RedisServer) -> Path:
    found = [*server.folder.glob("**/*.incr.aof"), *server.folder.glob("appendonly.aof")]
    assert len(found) == 1
    return found[0]


def test_a_log_that_is_whole_has_no_damage(stopped: RedisServer) -> None:
    assert find_damage(stopped.server.path, stopped.folder) is None


def test_the_file_and_the_byte_of_the_damage_are_named_and_the_server_refuses_it(stopped: RedisServer) -> None:
    log = log_of(stopped)
    content = bytearray(log.read_bytes())
    at = content.index(KEYS[10].encode())
    command = content.rindex(b"\r\n*", 0, at) + 2
    content[command : command + 1] = b"?"
    log.write_bytes(content)
    damage = find_damage(stopped.server.path, stopped.folder)
    assert damage is not None
    assert (damage.file, damage.size) == (log, len(content))
    assert 0 < damage.good <= command
    assert damage.words in ("format error", "Expected prefix '*', got: '?'")
    with pytest.raises(RuntimeError, match="redis did not start"):
        stopped.start()


def test_a_damaged_base_is_named_too(stopped: RedisServer) -> None:
    bases = list(stopped.folder.glob("**/*.base.rdb"))
    if not bases:
        pytest.skip("servers before 7.0 keep one file")
    content = bytearray(bases[0].read_bytes())
    content[len(content) // 2] ^= 0xFF
    bases[0].write_bytes(content)
    damage = find_damage(stopped.server.path, stopped.folder)
    assert damage is not None and damage.size == 0 and damage.words


def test_there_is_no_damage_where_there_is_no_log(tmp_path: Path, stopped: RedisServer) -> None:
    server: Server = stopped.server
    assert find_damage(server.path, tmp_path) is None
