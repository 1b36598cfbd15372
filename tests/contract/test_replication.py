"""A replica of each server that this machine has: an acknowledged write is there, or the master knows it is alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from grass.config import StandbyConfig
from grass.errors import StoreRefusesError, UnreachableError
from grass.provision.ports import free
from grass.store.embedded import Files, Server, conf_text, write_files
from grass.store.keys import Keys
from grass.store.records import Records
from grass.store.redis_backend import RedisBackend
from grass.store.replica_conf import STANDBY_USER, master_lines, replica_lines, write_replica_users
from grass.store.standby_gate import PATIENCE, Followed, StandbyGate
from grass.supervision.standby_watch import AWAY, IN_STEP, Progress, Standing, Watch, standing
from grass.system.clock import steady
from grass.system.entropy import password
from tests.contract.test_embedded_redis import servers
from tests.support.redis_server import USERS, RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis
KEY, ALONE, CONSENT = "grass:test:k", Keys("grass:test:").alone, Keys("grass:test:").consent


@dataclass
class Master(RedisServer):
    needed: bool = False
    witness: bool = False
    passwords: dict[str, str] = field(default_factory=lambda: {user: password() for user in (*USERS, STANDBY_USER)})

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
            more=master_lines(needed=self.needed or self.witness),
        )

    def writer(self) -> RedisBackend:
        name = self.login("agent")
        gate = Followed(StandbyGate(needed=self.needed, witness=self.witness), ALONE, CONSENT if self.witness else "")
        socket = str(self.socket)
        return RedisBackend(standby=gate, unix_socket_path=socket, username=name, password=self.passwords["agent"])


@dataclass
class Replica(RedisServer):
    port: int = 0
    secret: str = ""

    def write_files(self) -> Files:
        conf, acl = self.folder / "redis.conf", self.folder / "replica.acl"
        write_replica_users(acl, self.passwords["admin"])
        text = conf_text(
            folder=self.folder, socket=self.socket, acl_file=acl, version=self.server.version, memory=1 << 30
        )
        conf.write_text(text + replica_lines(self.port, self.secret, None))
        return Files(conf, acl)

    def in_step(self) -> bool:
        with closing(self.backend()) as backend:
            return backend.replication().linked and not backend.writes_first_log()


def pair(server: Server, *, needed: bool = False, witness: bool = False) -> tuple[Master, Replica]:
    master = Master(server, needed=needed, witness=witness)
    master.start()
    replica = Replica(server, port=master.port, secret=master.passwords[STANDBY_USER])
    replica.start()
    wait_until(replica.in_step, 20, "the replica")
    return master, replica


@pytest.fixture(params=servers(), ids=lambda server: f"{server.origin}-{server.version[0]}")
def both(request: pytest.FixtureRequest) -> Iterator[tuple[Master, Replica]]:
    master, replica = pair(request.param)
    try:
        yield master, replica
    finally:
        replica.remove()
        master.remove()


def test_what_was_acknowledged_is_on_the_replica_when_the_master_is_killed(both: tuple[Master, Replica]) -> None:
    master, replica = both
    with closing(master.writer()) as backend:
        for number in range(200):
            backend.apply([("SET", KEY, str(number))])
    master.kill()
    replica.kill()  # and on its disk: it is synced before the replica answers
    replica.start()
    with closing(replica.backend()) as backend:
        assert backend.get(KEY) == "199"


def test_only_admin_logs_in_at_a_replica_and_nobody_writes_there(both: tuple[Master, Replica]) -> None:
    _, replica = both
    with closing(replica.backend()) as backend:
        assert [name for name in backend.users() if name != "default"] == ["admin"]
        with pytest.raises(StoreRefusesError):
            backend.apply([("SET", KEY, "1")])


def test_the_user_of_the_standby_only_follows(both: tuple[Master, Replica]) -> None:
    master, _ = both
    name, secret = STANDBY_USER, master.passwords[STANDBY_USER]
    with closing(RedisBackend(unix_socket_path=str(master.socket), username=name, password=secret)) as backend:
        for ask in (lambda: backend.get(KEY), lambda: backend.apply([("SET", KEY, "1")]), backend.users):
            with pytest.raises(Exception, match=r"NOPERM|no permissions"):
                ask()


def test_the_master_goes_on_alone_after_one_wait_and_waits_again_when_the_replica_has_caught_up(
    both: tuple[Master, Replica],
) -> None:
    master, replica = both
    with closing(master.writer()) as backend, closing(master.backend()) as admin:
        replica.kill()
        began = steady()
        backend.apply([("SET", KEY, "first")])
        assert PATIENCE * 0.9 < steady() - began < PATIENCE + 2
        began = steady()
        for number in range(100):
            backend.apply([("SET", KEY, str(number))])
        assert steady() - began < PATIENCE / 2
        assert standing(admin.replication(), Progress(), steady()).state == "away"
        assert admin.hgetall(ALONE), "noted before the first write that is only here"
        with closing(master.writer()) as another:  # a process that starts now
            began = steady()
            another.apply([("SET", KEY, "another")])
            assert steady() - began < PATIENCE / 2 and len(admin.hgetall(ALONE)) == 2
        replica.start()
        wait_until(replica.in_step, 20, "the replica")
        wait_until(lambda: not admin.hgetall(ALONE), 10, "that writes wait again")
        backend.apply([("SET", KEY, "last")])
        assert standing(admin.replication(), Progress(), steady()) == Standing("in step", 0.0)
    master.kill()
    with closing(replica.backend()) as backend:
        assert backend.get(KEY) == "last" and not backend.hgetall(ALONE)


def test_a_master_that_needs_its_standby_acknowledges_nothing_without_it() -> None:
    master, replica = pair(servers()[0], needed=True)
    try:
        with closing(master.writer()) as backend:
            backend.apply([("SET", KEY, "before")])
            replica.kill()
            for _ in range(3):
                with pytest.raises((StoreRefusesError, UnreachableError)):
                    backend.apply([("SET", KEY, "after")])
    finally:
        replica.remove()
        master.remove()


def test_a_promoted_replica_has_everything_and_takes_writes(both: tuple[Master, Replica]) -> None:
    master, replica = both
    with closing(master.writer()) as backend:
        backend.apply([("SET", KEY, "kept")])
    master.kill()
    with closing(replica.backend()) as admin:
        admin.promote()
        assert admin.replication().is_master and not admin.writes_first_log()
    replica.stop()
    replica.files = RedisServer.write_files(replica)  # the steps of a master write it so
    replica.start()
    with closing(replica.backend("agent")) as backend:
        assert backend.get(KEY) == "kept" and backend.apply([("SET", KEY, "new")]) == 0


@pytest.mark.parametrize("server", servers()[:1])
def test_a_store_that_refuses_writes_without_its_standby_takes_up_later_that_it_was_away(server: Server) -> None:
    master, replica = pair(server, needed=True)
    try:
        with closing(master.backend()) as backend:
            records = Records(backend, Keys("grass:test:"))
            watch = Watch(backend, Keys("grass:test:"), StandbyConfig("10.0.0.2", "", "http://10.0.0.2:1", needed=True))
            watch.look(steady(), 1.0)
            assert (view := records.standby()) is not None and view.state == IN_STEP
            replica.stop()
            with pytest.raises(StoreRefusesError, match="the standby is away"):
                wait_until(lambda: watch.look(steady(), 2.0), 20, "the refusal")
            assert (view := records.standby()) is not None and view.state == IN_STEP, "nobody can note more"
            replica.start()
            wait_until(replica.in_step, 20, "the replica")
            wait_until(lambda: look(watch, 3.0), 20, "writes")
            found = [event.record.message for event in records.events()]
            assert [AWAY in text for text in found] == [False, True, False] and IN_STEP in found[-1]
    finally:
        replica.remove()
        master.remove()


def look(watch: Watch, wall: float) -> bool:
    try:
        watch.look(steady(), wall)
    except StoreRefusesError:
        return False
    return True
