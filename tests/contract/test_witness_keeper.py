"""A master, a replica and a witness: without the replica, nothing is acknowledged before the witness has noted it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from grass.config import StandbyConfig
from grass.errors import NodeUnreachableError, StoreRefusesError, UnreachableError
from grass.model.witness import Record
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.supervision.witness_keeper import Keeper
from grass.system.clock import steady
from grass.wire.witness import MasterLives, WitnessAnswer
from node.api.witness import WitnessDesk
from tests.contract.test_embedded_redis import servers
from tests.contract.test_replication import ALONE, CONSENT, KEY, Master, Replica, pair
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis
STANDBY = StandbyConfig("10.0.0.2", "", "", witness="n1")


@pytest.fixture
def both() -> Iterator[tuple[Master, Replica]]:
    master, replica = pair(servers()[0], witness=True)
    try:
        yield master, replica
    finally:
        replica.remove()
        master.remove()


class Reach:
    """The way to a witness, which may be cut."""

    def __init__(self, home: Path) -> None:
        self.desk, self.cut = WitnessDesk(home, steady), False
        self.record = Record()

    def __call__(self, asked: MasterLives) -> WitnessAnswer:
        if self.cut:
            raise NodeUnreachableError("node n1: does not answer")
        answer = self.desk.hear(asked)
        self.record = answer.record
        return answer


def looks(keeper: Keeper) -> None:
    keeper.look(steady())


def refuses(backend: RedisBackend) -> bool:
    try:
        backend.apply([("SET", KEY, "x")])
    except (StoreRefusesError, UnreachableError):
        return True
    return False


def test_a_master_goes_on_alone_only_with_the_consent_of_the_witness_and_joins_again(
    both: tuple[Master, Replica], tmp_path: Path
) -> None:
    master, replica = both
    reach = Reach(tmp_path)
    with closing(master.writer()) as backend, closing(master.backend()) as admin:
        keeper = Keeper(admin, Keys("grass:test:"), STANDBY, reach)

        def turn_until(true: bool, seconds: float) -> None:
            def now() -> bool:
                looks(keeper)
                return (keeper.why == "") is true

            wait_until(now, seconds, "the keeper")

        turn_until(True, 10)
        backend.apply([("SET", KEY, "before")])
        replica.kill()
        reach.cut = True
        assert refuses(backend), "not confirmed, and the witness has noted nothing"
        wait_until(lambda: refuses(admin), 10, "that the server itself refuses what is still under way")
        looks(keeper)
        assert keeper.why == "node n1: does not answer" and refuses(backend) and not admin.hgetall(ALONE)

        reach.cut = False
        wait_until(lambda: (looks(keeper), admin.get(CONSENT) == "1")[1], 10, "the consent")
        assert reach.record.alone, "on the disk of the witness before the first write that is only here"
        wait_until(lambda: not refuses(backend), 10, "writes")
        assert admin.hgetall(ALONE) and "goes on alone" in keeper.why

        replica.start()
        wait_until(replica.in_step, 20, "the replica")
        turn_until(True, 20)
        assert not reach.record.alone and admin.get(CONSENT) is None and not admin.hgetall(ALONE)
        backend.apply([("SET", KEY, "last")])
    master.kill()
    with closing(replica.backend()) as there:
        assert there.get(KEY) == "last"


def test_a_server_that_was_restarted_refuses_until_the_keeper_has_looked(
    both: tuple[Master, Replica], tmp_path: Path
) -> None:
    master, replica = both
    reach = Reach(tmp_path)
    replica.kill()
    with closing(master.backend()) as admin:
        keeper = Keeper(admin, Keys("grass:test:"), STANDBY, reach)
        wait_until(lambda: (looks(keeper), admin.get(CONSENT) == "1")[1], 15, "the consent")
    master.kill()
    master.start()
    with closing(master.writer()) as backend, closing(master.backend()) as admin:
        assert refuses(backend)
        looks(Keeper(admin, Keys("grass:test:"), STANDBY, reach))
        assert not refuses(backend)


def test_a_witness_that_knows_nothing_gives_no_vote_before_the_standby_has_everything(
    both: tuple[Master, Replica], tmp_path: Path
) -> None:
    """The master had no witness before, or another one, and nobody knows whether it was alone."""
    master, replica = both
    reach = Reach(tmp_path)
    replica.kill()
    with closing(master.backend()) as admin:
        keeper = Keeper(admin, Keys("grass:test:"), STANDBY, reach)
        looks(keeper)
        assert reach.record.alone and admin.get(CONSENT) is None, "noted, and nothing is acknowledged for it"
        replica.start()
        wait_until(replica.in_step, 20, "the replica")
        wait_until(lambda: (looks(keeper), keeper.why == "")[1], 20, "that the standby would take over")
        assert not reach.record.alone
