"""The start of a container up to its request to the engine: what looks at the share does so in a thread."""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.errors import InputError
from grass.model.job import Container as ContainerPlan
from grass.model.job import Mount
from grass.model.reasons import ReasonCode
from grass.node_config import NodeConfig, NodeHome
from node.runtime.attempts import Folders
from node.runtime.docker.container import Container
from node.runtime.docker.engine import Engine
from node.runtime.docker.kept_memory import KeptFolders
from node.runtime.docker.starts import LaterError, Made, Starts
from node.runtime.protocol import Launch, RuntimeEvent, Start, Waiting
from node.runtime.reactor import Reactor
from tests.support.hung_mount import hung_mount

KEY = "train-1/actor.0/1"


class Loop:
    """The loop that starts one container; its engine does not answer."""

    def __init__(self, home: Path) -> None:
        self.config = NodeHome("lab", "local", str(home), str(home), node=NodeConfig(name="n1"))
        self.reactor = Reactor()
        engine = Engine(str(home / "no.sock"))
        self.starts = Starts(
            self.config, engine, Folders(str(home / "attempts")), self.reactor, None, KeptFolders(self.config)
        )
        self.made: list[Made] = []
        self.events: list[RuntimeEvent] = []

    def begin(self, *mounts: Mount) -> Container:
        attempt = Container(KEY, "train-1/actor", Start(KEY, "train-1/actor", {}))
        launch = Launch(["true"], {}, None, 5.0, image="i:1", container=ContainerPlan(mounts=mounts))
        self.starts.begin(attempt, launch, self.made.append)
        return attempt

    def until_made(self) -> Made:
        while not self.made:
            assert select.select([self.reactor.fileno()], [], [], 10)[0], "the start does not end"
            self.events += self.reactor.turn()
        return self.made[0]


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    made = Loop(tmp_path)
    yield made
    made.reactor.end_work(5.0)
    made.reactor.close()


def test_the_folders_of_a_container_are_looked_at_in_its_thread(loop: Loop) -> None:
    loop.config.data_dir.mkdir()
    (loop.config.data_dir / "link").symlink_to("/etc")
    loop.begin(Mount("/link", "/dst", shared=True))
    made = loop.until_made()
    assert isinstance(made, InputError) and str(made) == "/link leads out of the share"


@pytest.mark.needs_root
def test_a_share_that_does_not_answer_delays_its_own_container_alone_and_is_tried_again(loop: Loop) -> None:
    loop.config.data_dir.mkdir()
    with hung_mount(loop.config.data_dir) as share:
        loop.begin(Mount("/sets", "/dst", shared=True))
        loop.events += loop.reactor.turn()
        assert not loop.made, "the loop goes on, and the start waits"
        share.die()
        assert isinstance(loop.until_made(), LaterError)
    [event] = loop.events
    assert isinstance(event, Waiting) and event.reason.code is ReasonCode.SHARE
    assert event.reason.message.startswith("the share does not answer: ")
