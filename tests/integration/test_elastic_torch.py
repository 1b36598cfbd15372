"""Unmodified torch under torchrun, over a real node-agent; the test plays the master-agent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

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
    node: MembershipRun, torch: Path, tmp_path: Path
) -> None:
    checkpoint, stop = tmp_path / "checkpoint", tmp_path / "stop"
    command = f"torchrun --monitor-interval 0.1 {TRAIN} {checkpoint} {stop}"
    env = {"PATH": f"{torch}/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    framework = {"name": "torchrun"}
    # ranks are those of the membership, not of the indexes
    one, two = node.begin("w", command, [(1, 1), (0, 1)], framework=framework, env=env)
    node.wait_out(two, "goes on size=2 order=1-0", 60)
    [three] = node.add("w", (2, 1))
    node.tell("w", [(1, 1), (2, 1), (0, 1)])
    node.wait_out(three, "goes on size=3 order=1-2-0", 60)
    # the store's server ends: training goes on with what the node knows
    node.kill_agent()
    node.start_agent()
    # a training process is killed: its torchrun starts it again, and the others join it
    [worker] = [each for each in psutil.Process(node.pid(three)).children(recursive=True) if not each.children()]
    worker.kill()
    node.wait(lambda: node.out(two).count("goes on size=3") == 2, 60)
    # a whole task is killed and replaced by its next attempt
    os.killpg(node.pid(three), signal.SIGKILL)
    node.ended(three)
    node.tell("w", [(1, 1), (0, 1)])
    [again] = node.add("w", (2, 2))
    node.tell("w", [(1, 1), (2, 2), (0, 1)])
    node.wait_out(again, "goes on size=3 order=1-2-0", 60)
    # scale in: the released one ends by itself, with 0
    node.tell("w", [(1, 1), (0, 1)])
    assert node.ended(again, 60).code == 0
    node.wait(lambda: node.out(one).rstrip().endswith("goes on size=2 order=1-0") and "size=3" in node.out(one), 60)
    stop.touch()
    assert [node.ended(key, 60).code for key in (one, two)] == [0, 0]
    assert "done size=2" in node.out(one) and "done size=2" in node.out(two)
    assert "restarts=0" in node.out(again) and "restarts=0" in node.out(one).split("goes on size=3")[0]
