"""A master that was replaced and comes back is fenced through its own redis, and a new master never fences itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from grass.config import ClusterConfig, RedisConfig, Secrets
from grass.errors import NotAllowedError, UnreachableError
from grass.provision.on_premises.standby_on_host import STAGED, Promotion, promote
from grass.provision.ports import free
from grass.store.agent_store import AgentStore
from grass.store.embedded import Files, find_server, write_files
from grass.store.keys import RECORD, Keys
from grass.supervision import predecessor
from grass.supervision.standby import MARK
from grass.wire.backup import Restored
from grass.wire.codec import encode
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
            backend.apply([("HSET", Keys(PREFIX).restored, RECORD, encode(Restored(made=1.0, at=2.0, term=1)))])
        yield old, new, config
    finally:
        old.remove()
        new.remove()


def test_a_master_that_was_replaced_can_decide_nothing_more(
    masters: tuple[NetworkServer, NetworkServer, ClusterConfig],
) -> None:
    old, _, config = masters
    predecessor.write(Path(config.home), ("127.0.0.1:1", f"127.0.0.1:{old.port}"), config)
    with closing(old.backend("agent")) as backend:
        leading = AgentStore(backend, Keys(PREFIX))
        leading.acquire("old")
        predecessor.start_fencing(config)
        left = ("127.0.0.1:1",)
        wait_until(lambda: predecessor.listed(Path(config.home)) == left, 10, "the fence of the one that came back")
        with pytest.raises((NotAllowedError, UnreachableError)):  # the connection that it had was closed
            leading.commit([], [])
    old.stop()
    old.start()  # it reads its users from its file
    for user in ("agent", "api", "node"):
        with closing(old.backend(user)) as backend, pytest.raises(NotAllowedError):
            backend.get("grass:lab:fence")
    predecessor.write(Path(config.home), (), config)


def test_a_list_that_cannot_be_read_for_a_while_ends_no_fencing(
    masters: tuple[NetworkServer, NetworkServer, ClusterConfig], caplog: pytest.LogCaptureFixture
) -> None:
    old, _, config = masters
    home, loop = Path(config.home), Path(config.home) / "loop"
    predecessor.write(home, ("127.0.0.1:1",), config)
    predecessor.start_fencing(config)
    loop.symlink_to(predecessor.PREDECESSOR)
    loop.replace(home / predecessor.PREDECESSOR)  # a link to itself
    wait_until(lambda: "cannot read which masters" in caplog.text, 10, "a look that fails")
    predecessor.write(home, (f"127.0.0.1:{old.port}",), config)
    wait_until(lambda: not predecessor.listed(home), 10, "the fence")


def test_a_master_that_comes_back_does_not_fence_a_later_one(
    masters: tuple[NetworkServer, NetworkServer, ClusterConfig],
) -> None:
    old, _, config = masters
    with closing(old.backend("admin")) as backend:  # restored elsewhere again, before this one could be told
        backend.apply([("HSET", Keys(PREFIX).restored, RECORD, encode(Restored(made=1.0, at=1.0, term=2)))])
    assert "is that of a later master" in predecessor.fence(config, "127.0.0.1", old.port)
    with closing(old.backend("agent")) as backend:
        AgentStore(backend, Keys(PREFIX)).acquire("later")


def test_the_addresses_of_the_masters_before_are_kept_without_its_own(
    masters: tuple[NetworkServer, NetworkServer, ClusterConfig],
) -> None:
    _, new, config = masters
    home = Path(config.home)
    predecessor.write(home, ("10.0.0.1:1", f"127.0.0.1:{new.port}", "10.0.0.1:1", ""), config)
    assert predecessor.listed(home) == ("10.0.0.1:1",)
    predecessor.write(home, (), config)
    assert predecessor.listed(home) == ()


def test_a_master_does_not_fence_itself(masters: tuple[NetworkServer, NetworkServer, ClusterConfig]) -> None:
    _, new, config = masters
    assert "is this master's own" in predecessor.fence(config, "127.0.0.1", new.port)
    with closing(new.backend("agent")) as backend:
        AgentStore(backend, Keys(PREFIX)).acquire("new")


def test_a_standby_becomes_the_master_while_the_old_one_hangs_and_fences_it_later(
    masters: tuple[NetworkServer, NetworkServer, ClusterConfig],
) -> None:
    """The kernel of a machine whose processes are stopped still accepts connections."""
    old, _, config = masters
    home = Path(config.home)
    config.save()
    (home / STAGED / "master" / "users").mkdir(parents=True)
    for name in ("secrets.json", "tls/ca.pem", "tls/ca.key", "redis/users.acl"):
        (home / STAGED / name).parent.mkdir(parents=True, exist_ok=True)
        (home / STAGED / name).write_bytes((home / "secrets.json").read_bytes())
    (home / MARK).touch()
    before = f"127.0.0.1:{old.port}"
    assert old.process is not None
    old.process.send_signal(signal.SIGSTOP)
    try:
        promote(Promotion(str(config.path), (before,), 0, 0.0))
        assert not (home / MARK).exists() and predecessor.listed(home) == (before,)
    finally:
        old.process.send_signal(signal.SIGCONT)
    predecessor.start_fencing(config)
    wait_until(lambda: not predecessor.listed(home), 20, "the fence")
    with closing(old.backend("agent")) as backend, pytest.raises(NotAllowedError):
        backend.get("grass:lab:fence")
