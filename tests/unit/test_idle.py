"""When a cluster that may shut itself down counts as idle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grass.config import ClusterConfig
from grass.store.accounts import MemoryAccounts
from grass.store.agent_store import AgentStore
from grass.store.api_store import ApiStore
from grass.store.keys import Keys
from grass.system.clock import steady
from grass.wire.tickets import StopJob
from master.agent.loop import MasterAgent
from tests.doubles.memory_backend import MemoryBackend

ROUND = 0.02
ROUNDS = 10


class Idle:
    """A master-agent that may shut down after three idle rounds of housekeeping, and how often it wanted to."""

    def __init__(self, folder: Path) -> None:
        config = ClusterConfig("test", "local", str(folder), str(folder))
        settings = replace(config.master, keep_agent_alive=False, agent_countdown=3, check_interval=ROUND)
        backend, keys = MemoryBackend(), Keys("grass:test:")
        self.api = ApiStore(backend, keys)
        self.shutdowns = 0
        self.agent = MasterAgent(
            replace(config, master=settings), AgentStore(backend, keys), MemoryAccounts(), self._shut_down
        )

    def _shut_down(self) -> None:
        self.shutdowns += 1

    def run(self, *, asked_for_something: bool) -> None:
        """Until it wants to shut down; or for ten rounds, in each of which somebody asks for what is done at once."""
        self.agent.start("test")
        until, asked = steady() + (ROUNDS * ROUND if asked_for_something else 20.0), 0.0

        def over() -> bool:
            nonlocal asked
            if asked_for_something and steady() - asked > ROUND / 3:
                asked = steady()
                self.api.ticket(StopJob("gone-1", "ann"))
            return self.shutdowns > 0 or steady() > until

        self.agent.run(over)


def test_a_cluster_that_is_asked_for_nothing_is_idle(tmp_path: Path) -> None:
    idle = Idle(tmp_path)
    idle.run(asked_for_something=False)
    assert idle.shutdowns > 0


def test_what_begins_and_ends_between_two_rounds_is_no_idleness(tmp_path: Path) -> None:
    idle = Idle(tmp_path)
    idle.run(asked_for_something=True)
    assert idle.shutdowns == 0
