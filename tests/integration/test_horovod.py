"""The elastic driver of Horovod over a real node-agent: rendered files and the ``ssh`` of Grass. The test plays the
master-agent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.wire.task_events import Drained
from tests.support.frameworks import horovod_folder
from tests.support.membership_run import MembershipRun

RUN = Path(__file__).parents[1] / "support" / "horovod_run.py"
HOROVOD = {"name": "horovod"}

pytestmark = pytest.mark.timeout(170)


@pytest.fixture(scope="module")
def horovod() -> Path:
    return horovod_folder()


@pytest.fixture
def node(horovod: Path) -> Iterator[MembershipRun]:
    with MembershipRun() as run:
        yield run


def test_training_goes_from_two_to_three_to_two_workers_and_a_lost_one_is_replaced(
    node: MembershipRun, horovod: Path, tmp_path: Path
) -> None:
    # Horovod keeps hosts in a set; their order depends on the seed of hashes. With this one, worker-0 is the first.
    env = {"PATH": f"{horovod}/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "2"}
    one, two = node.begin("worker", "exec sleep 1000", [(0, 1), (1, 1)], framework=HOROVOD, env=env)
    node.wait(lambda: {one, two} <= {event.key for event in node.events})
    command = f"exec python3 {RUN} driver {tmp_path}"
    [launcher] = node.begin("launcher", command, [(0, 1)], framework=HOROVOD, env=env)
    node.wait_out(launcher, "worker-0-1 is rank 0 of 2 at the first step")
    node.wait_out(launcher, "worker-1-1 is rank 1 of 2 at the first step")
    [three] = node.add("worker", (2, 1))
    node.wait(lambda: any(event.key == three for event in node.events))
    node.tell("worker", [(0, 1), (1, 1), (2, 1)])
    # a new worker takes the state of the others
    node.wait_out(launcher, "worker-0-1 is rank 0 of 3 at a later step")
    node.wait_out(launcher, "worker-2-1 is rank 2 of 3 at a later step")
    # Horovod excludes the host of a killed worker forever; the next attempt is another host
    os.kill(node.pid(two), signal.SIGKILL)
    node.ended(two)
    node.tell("worker", [(0, 1), (2, 1)])
    node.wait_out(launcher, "worker-2-1 is rank 1 of 2 at a later step")
    [again] = node.add("worker", (1, 2))
    node.wait(lambda: any(event.key == again for event in node.events))
    node.tell("worker", [(0, 1), (1, 2), (2, 1)])
    node.wait_out(launcher, "worker-1-2 is rank 2 of 3 at a later step")
    # a worker that is released ends at the next commit, and its task is free as soon as Horovod has let it go
    released = int((tmp_path / "worker-2-1.pid").read_text())
    node.tell("worker", [(0, 1), (1, 2)])
    node.wait_out(launcher, "worker-1-2 is rank 1 of 2 at a later step")
    node.wait(lambda: Drained(three) in node.events, 10)
    assert not Path(f"/proc/{released}").exists()
    (tmp_path / "stop").touch()
    assert node.ended(launcher, 30).code == 0, node.err(launcher)
    assert Drained(one) not in node.events and Drained(again) not in node.events
