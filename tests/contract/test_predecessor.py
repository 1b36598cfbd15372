"""A master that was replaced and comes back is fenced through its own redis, and a new master never fences itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from grass.config import ClusterConfig, RedisConfig, Secrets
from grass.errors import NotAllowedError, UnreachableError
from grass.provision.ports import free
from grass.store.agent_store import AgentStore
from grass.store.embedded import Files, find_server, write_files
from grass.store.keys import RECORD, Keys
from grass.supervision import predecessor
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis
PREFIX = "grass:lab:"


class NetworkServer(RedisServer):
    """A redis that also listens at a port, as that of a master of several hosts."""

    def write_files(self) -> Files:
        self.port = free("127.0.0.1", self.folder, set())
        return write_files(
            self.folder,
            server=self.server,
            socket=self.socket,
            prefix=self.prefix,
            node=self.node,
            passwords=self.passwords,
            tcp=("127.0.0.1", self.port),
        )


@pytest.fixture
def masters(tmp_path: Path) -> Iterator[tuple[NetworkServer, NetworkServer, ClusterConfig]]:
    """The old master's redis, that of the new one, which was restored, and the configuration of the new one."""
    old = NetworkServer(find_server(), PREFIX)
    new = NetworkServer(find_server(), PREFIX, passwords=old.passwords)
    redis = RedisConfig(socket=str(new.socket), host="127.0.0.1", port=new.port)
    config = ClusterConfig("lab", "grass/on-premises", str(tmp_path), str(new.folder), redis=redis)
    Secrets(old.passwords, "token").save(tmp_path)
    try:
        old.start()
        new.start()
        with closing(new.backend("admin")) as backend:
            backend.apply([("HSET", Keys(PREFIX).restored, RECORD, "the times")])
        yield old, new, config
    finally:
        old.remove()
        new.remove()


def test_a_master_that_was_replaced_can_decide_nothing_more(
    masters: tuple[NetworkServer, NetworkServer, ClusterConfig],
) -> None:
    old, _, config = masters
    (Path(config.home) / predecessor.PREDECESSOR).write_text(f"127.0.0.1:{old.port}\n")
    with closing(old.backend("agent")) as backend:
        leading = AgentStore(backend, Keys(PREFIX))
        leading.acquire("old")
        predecessor.start_fencing(config)
        wait_until(lambda: not (Path(config.home) / predecessor.PREDECESSOR).exists(), 10, "the fence")
        with pytest.raises((NotAllowedError, UnreachableError)):  # the connection that it had was closed
            leading.commit([], [])
    old.stop()
    old.start()  # it reads its users from its file
    for user in ("agent", "api", "node"):
        with closing(old.backend(user)) as backend, pytest.raises(NotAllowedError):
            backend.get("grass:lab:fence")


def test_a_master_does_not_fence_itself(masters: tuple[NetworkServer, NetworkServer, ClusterConfig]) -> None:
    _, new, config = masters
    assert "is this master's own" in predecessor.fence(config, "127.0.0.1", new.port)
    with closing(new.backend("agent")) as backend:
        AgentStore(backend, Keys(PREFIX)).acquire("new")
