"""Unmodified torch under torchrun, over a real node-agent; the test plays the master-agent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from node.membership.paths import membership_file
from tests.support.frameworks import torch_folder
from tests.support.membership_run import MembershipRun

TRAIN = Path(__file__).parents[1] / "support" / "elastic_train.py"

pytestmark = pytest.mark.timeout(170)


@pytest.fixture(scope="module")
def torch() -> Path:
    return torch_folder()


@pytest.fixture(scope="module")
def node(torch: Path) -> Iterator[MembershipRun]:
    with MembershipRun() as run:
        yield run


def test_training_goes_from_two_to_three_to_two_workers_and_survives_kills(
    node: MembershipRun, torch: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With ``--long``, tasks are killed, too. Each start of the training imports torch again, for 3 s of a core."""
    checkpoint, stop, go = tmp_path / "checkpoint", tmp_path / "stop", tmp_path / "go"
    late = f"[ $GRASS_INDEX != 2 ] || until [ -e {go} ]; do sleep 0.1; done"
    command = f"{late}; exec torchrun --monitor-interval 0.1 {TRAIN} {checkpoint} {stop}"
    env = {"PATH": f"{torch}/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    framework = {"name": "torchrun"}
    # ranks are those of the membership, not of the indexes
    one, two = node.begin("w", command, [(1, 1), (0, 1)], framework=framework, env=env)
    node.wait_out(two, "goes on size=2 order=1-0", 60)
    [three] = node.add("w", (2, 1))
    node.tell("w", [(1, 1), (2, 1), (0, 1)])
    # a new member disturbs nobody before it has imported torch: here, for a second of training
    membership = Path(membership_file(node.config, "j-1", "w"))
    node.wait(lambda: "w.2" in membership.read_text())
    before = steps(tmp_path)
    node.wait(lambda: steps(tmp_path) >= before + 50, 30)
    assert node.out(one).count("begin") == 1
    go.touch()
    node.wait_out(three, "goes on size=3 order=1-2-0", 60)
    # the store's server ends: training goes on with what the node knows
    node.kill_agent()
    node.start_agent()
    if request.config.getoption("--long"):
        three = killed(node, two, three)
    # scale in: the released one ends by itself, with 0
    node.tell("w", [(1, 1), (0, 1)])
    assert node.ended(three, 60).code == 0
    node.wait(lambda: node.out(one).rstrip().endswith("goes on size=2 order=1-0") and "size=3" in node.out(one), 60)
    stop.touch()
    assert [node.ended(key, 60).code for key in (one, two)] == [0, 0]
    assert "done size=2" in node.out(one) and "done size=2" in node.out(two)
    assert "restarts=0" in node.out(three) and "restarts=0" in node.out(one).split("goes on size=3")[0]


def killed(node: MembershipRun, other: str, victim: str) -> str:
    """Kill a training process of the task, then the whole task. Return its next attempt."""
    # its torchrun starts it again, and the others join it
    [worker] = [each for each in psutil.Process(node.pid(victim)).children(recursive=True) if not each.children()]
    worker.kill()
    node.wait(lambda: node.out(other).count("goes on size=3") == 2, 60)
    os.killpg(node.pid(victim), signal.SIGKILL)
    node.ended(victim)
    node.tell("w", [(1, 1), (0, 1)])
    [again] = node.add("w", (2, 2))
    node.tell("w", [(1, 1), (2, 2), (0, 1)])
    node.wait_out(again, "goes on size=3 order=1-2-0", 60)
    return again


def steps(folder: Path) -> int:
    """Return the number of checkpoints that were written: one at each step."""
    return len(list(folder.glob("checkpoint.*")))
