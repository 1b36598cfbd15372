"""A copy of each server that this machine has: fetched while it runs, loaded into another one, and made its log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.errors import UnreachableError
from grass.provision.backup import scratch
from grass.store.keys import RECORD, Keys
from grass.store.redis_copy import CannotCopyError, fetch
from tests.contract.test_embedded_redis import servers
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.needs_redis

KEYS = Keys(RedisServer.prefix)


@pytest.fixture(params=servers(), ids=lambda server: f"{server.origin}-{server.version[0]}", scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A server with a job, a stream, and a session."""
    running = RedisServer(request.param)
    try:
        running.start()
        backend = running.backend()
        backend.apply([("HSET", KEYS.jobs, "j-1", "record"), ("XADD", KEYS.events, 10, "body", "{}")])
        backend.apply([("SET", KEYS.fence, "7"), ("SETEX", KEYS.session("s"), 1000, "key")])
        backend.close()
        yield running
    finally:
        running.remove()


def fetched(server: RedisServer, folder: Path) -> Path:
    folder.mkdir()
    with (folder / "dump.rdb").open("wb") as file:
        fetch(str(server.socket), "admin", server.passwords["admin"], file.write)
    return folder


def test_a_copy_is_that_of_one_moment_and_its_digest_says_what_is_in_it(server: RedisServer, tmp_path: Path) -> None:
    first = fetched(server, tmp_path / "a")
    backend = server.backend()
    backend.apply([("HSET", KEYS.jobs, "j-2", "record")])
    second = fetched(server, tmp_path / "b")
    backend.apply([("HDEL", KEYS.jobs, "j-2"), ("SETEX", KEYS.session("t"), 1000, "key")])  # what expires is no state
    third = fetched(server, tmp_path / "c")
    backend.close()
    found = []
    for folder in (first, second, third):
        with scratch.loaded(folder, server.server) as copy:
            found.append((copy.digest(), copy.jobs(KEYS)))
    assert [jobs for _, jobs in found] == [1, 2, 1]
    assert found[0] == found[2] != found[1] and found[0][0][0] == found[1][0][0] == 3
    assert [path.name for path in first.iterdir()] == ["dump.rdb"]


def test_a_copy_becomes_the_log_from_which_a_server_begins(server: RedisServer, tmp_path: Path) -> None:
    folder = fetched(server, tmp_path / "a")
    with scratch.loaded(folder, server.server) as copy:
        copy.settle(KEYS, "{}", horizon=5.0)
        copy.write_log()
    other = RedisServer(server.server)
    try:
        for path in folder.glob("append*"):
            shutil.move(path, other.folder)
        other.start()
        backend = other.backend()
        assert (backend.hget(KEYS.jobs, "j-1"), backend.get(KEYS.fence)) == ("record", "7")
        assert (backend.hget(KEYS.restored, RECORD), backend.get(KEYS.horizon)) == ("{}", "5.0")
        assert backend.get(KEYS.session("s")) is None  # who was logged in logs in again
        backend.close()
        node = other.backend("node")
        assert node.hget(KEYS.restored, RECORD) == "{}"
        node.close()
    finally:
        other.remove()


def test_requests_that_the_old_master_accepted_stay_refused_where_the_clock_is_behind(
    server: RedisServer, tmp_path: Path
) -> None:
    backend = server.backend()
    backend.apply([("SET", KEYS.horizon, "3600.5")])
    folder = fetched(server, tmp_path / "a")
    backend.apply([("DEL", KEYS.horizon)])
    backend.close()
    with scratch.loaded(folder, server.server) as copy:
        assert copy.restored(KEYS) == ""
        copy.settle(KEYS, "{}", horizon=5.0)
        assert (copy.restored(KEYS), copy.horizon(KEYS)) == ("{}", 3600.5)


def test_what_is_no_copy_is_refused_by_the_server_that_would_load_it(tmp_path: Path) -> None:
    (tmp_path / "dump.rdb").write_bytes(b"REDIS0011 and then nothing that makes sense")
    with pytest.raises(CannotCopyError, match="cannot load the copy"), scratch.loaded(tmp_path):
        pass


def test_a_server_that_does_not_run_or_refuses_the_user_gives_no_copy(server: RedisServer, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="does not answer"):
        fetch(str(tmp_path / "none.sock"), "admin", "x", lambda _: None)
    with pytest.raises(CannotCopyError, match="refuses this user"):
        fetch(str(server.socket), "admin", "wrong", lambda _: None)
