"""A standby over a real replica: it asks for the vote after it stopped following, and only if it lacks nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from grass.config import ClusterConfig, RedisConfig, Secrets, StandbyConfig
from grass.model.witness import SILENT, Record
from grass.store.keys import Keys
from grass.supervision.candidate import ELECTED, FOLDER, Candidate
from grass.system.clock import steady
from grass.wire.witness import AskVote, MasterLives, WitnessAnswer
from node.api.witness import WitnessDesk
from tests.contract.test_embedded_redis import servers
from tests.contract.test_replication import Master, Replica, pair
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis


@dataclass
class Follower:
    """What the candidate sees of the connection to the master."""

    heard_at: float
    whole_since: str
    follows: bool = True
    left: int = 0
    left_again: threading.Event = field(default_factory=threading.Event)

    def leave(self) -> None:
        self.follows, self.left = False, self.left + 1
        if self.left > 1:
            self.left_again.set()

    def follow(self) -> None:
        self.follows = True


class Witness:
    """A witness that heard of the master long ago."""

    def __init__(self, home: Path) -> None:
        self.now = 0.0
        self.desk = WitnessDesk(home, lambda: self.now)
        self.desk.hear(MasterLives(0, 0, alone=False))
        self.now = 100.0


@pytest.fixture
def both() -> Iterator[tuple[Master, Replica]]:
    master, replica = pair(servers()[0])
    try:
        yield master, replica
    finally:
        replica.remove()
        master.remove()


@pytest.fixture
def config(both: tuple[Master, Replica], tmp_path: Path) -> Iterator[ClusterConfig]:
    _, replica = both
    home = tmp_path / "home"
    (home / FOLDER / "master").mkdir(parents=True)
    config = ClusterConfig(
        "test", "m", str(home), str(tmp_path), RedisConfig(embedded=True, socket=str(replica.socket))
    )
    Secrets({"admin": replica.passwords["admin"]}, "").save(home)
    with closing(both[0].backend()) as backend:
        backend.apply([("HSET", Keys("grass:test:").nodes, "n1", "{}")])
        assert backend.on_replica(10)
    told = replace(config, standby=StandbyConfig("10.0.0.2", "", "", witness="n1"))
    told.save(home / FOLDER / "master" / "cluster.json")
    yield config
    (home / ELECTED).touch()  # ends the candidate


def run(config: ClusterConfig, follower: Follower, vote: Callable[[AskVote], WitnessAnswer]) -> None:
    def ask(_config: Any, _backend: Any, name: str, _call: Any, asked: AskVote) -> WitnessAnswer:
        assert name == "n1" and not follower.follows, "it follows no more when it asks"
        return vote(asked)

    threading.Thread(target=Candidate(config, follower, ask).run, daemon=True).start()


def run_id(replica: Replica) -> str:
    with closing(replica.backend()) as backend:
        return backend.run_id()


def test_a_standby_that_hears_nothing_leaves_and_takes_the_vote(
    both: tuple[Master, Replica], config: ClusterConfig, tmp_path: Path
) -> None:
    follower = Follower(steady(), run_id(both[1]))
    witness = Witness(tmp_path)
    run(config, follower, witness.desk.vote)
    elected = Path(config.home) / ELECTED
    wait_until(elected.exists, 30, "the vote")
    assert not follower.follows and witness.desk.hear(MasterLives(0, 0, alone=True, change=True)).why


def test_a_standby_without_a_vote_follows_again(
    both: tuple[Master, Replica], config: ClusterConfig, tmp_path: Path
) -> None:
    follower = Follower(steady(), run_id(both[1]))
    witness = Witness(tmp_path)
    witness.desk.hear(MasterLives(0, 0, alone=True, change=True))
    asked = threading.Event()

    def vote(ask: AskVote) -> WitnessAnswer:
        asked.set()
        return witness.desk.vote(ask)

    run(config, follower, vote)
    assert asked.wait(30)
    wait_until(lambda: follower.follows, 10, "that it follows")
    assert not follower.left_again.wait(SILENT + 3), "a busy machine needs longer to connect"
    assert not (Path(config.home) / ELECTED).exists()


def test_a_standby_whose_redis_was_restarted_does_not_ask(both: tuple[Master, Replica], config: ClusterConfig) -> None:
    """What it had confirmed from memory may be lost."""
    follower = Follower(steady() - 100, "another run")
    asked = threading.Event()

    def vote(ask: AskVote) -> WitnessAnswer:
        asked.set()
        return WitnessAnswer(Record(0, voted=ask.standby))

    run(config, follower, vote)
    assert not asked.wait(15) and follower.follows
