"""A cluster whose state lives in a redis of the user's own: a real server on TCP, with a password."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.errors import ConflictError, NotAllowedError, UnreachableError
from grass.manifest.settings import parse_settings
from grass.provision import local
from grass.provision.ports import free
from grass.store.embedded import find_server
from grass.store.redis_backend import RedisBackend
from tests.support.waiting import wait_until

PASSWORD = 'open sesame\'s "door"'


class OwnRedis:
    def __init__(self, folder: Path) -> None:
        self.port = free("127.0.0.1", folder, set())
        conf = folder / "own.conf"
        quoted = PASSWORD.replace('"', '\\"')
        conf.write_text(f'port {self.port}\nbind 127.0.0.1\ndir {folder}\nsave ""\nrequirepass "{quoted}"\n')
        self.process = subprocess.Popen([find_server().path, conf], stdout=subprocess.DEVNULL)
        self.backend = RedisBackend(host="127.0.0.1", port=self.port, password=PASSWORD)
        wait_until(self._answers, what="the server")

    def _answers(self) -> bool:
        try:
            self.backend.ping()
        except UnreachableError:
            return False
        return True

    def all_keys(self) -> list[str]:
        return sorted(str(key) for key in self.backend._redis.scan_iter())

    def settings(self, name: str = "mine", password: str = PASSWORD) -> Any:
        redis = {"host": "127.0.0.1", "port": self.port, "password": password}
        return parse_settings({"name": name, "redis": redis})

    def end(self) -> None:
        self.backend.close()
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path_factory.mktemp("own-redis"))
    yield server
    server.end()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    for folder in (home / "clusters").glob("*"):
        local.delete(folder.name, home=home, progress=lambda _: None)


def test_a_job_runs_and_delete_removes_the_keys_of_this_cluster_only(own: OwnRedis, home: Path) -> None:
    own.backend._redis.set("somebody:else", "1")
    said: list[str] = []
    config = local.create(own.settings(), home=home, progress=said.append)
    assert any("appendonly no" in line for line in said), said
    with Client("mine", home=home) as client:
        client.start({"name": "hello", "components": {"t": {"command": "echo hello"}}})
        assert client.wait("hello", timeout=30).state == "SUCCEEDED"
        assert [line.text for line in client.logs("hello")] == ["hello"]
    assert any(key.startswith(config.key_prefix) for key in own.all_keys())
    assert PASSWORD not in (Path(config.home) / "cluster.json").read_text()
    local.delete("mine", home=home, progress=said.append)
    assert own.all_keys() == ["somebody:else"]


def test_two_clusters_of_one_name_do_not_share_a_redis(own: OwnRedis, home: Path, tmp_path: Path) -> None:
    local.create(own.settings(), home=home, progress=lambda _: None)
    with pytest.raises(ConflictError, match="already holds a cluster mine"):
        local.create(own.settings(), home=tmp_path / "other", progress=lambda _: None)
    local.create(own.settings("second"), home=home, progress=lambda _: None)
    with Client("second", home=home) as client:
        assert client.jobs() == []


def test_a_wrong_password_or_port_is_said_and_leaves_nothing(own: OwnRedis, home: Path) -> None:
    with pytest.raises((NotAllowedError, UnreachableError)):
        local.create(own.settings(password="wrong"), home=home, progress=lambda _: None)
    nobody = parse_settings({"name": "mine", "redis": {"host": "127.0.0.1", "port": 1}})
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1 does not answer"):
        local.create(nobody, home=home, progress=lambda _: None)
    assert not (home / "clusters" / "mine" / "cluster.json").exists()
