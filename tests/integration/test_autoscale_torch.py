"""`autoscale` over stock torchrun: training grows on an idle machine, and goes back for a job of higher priority."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grass.api.client import Client
from grass.model.lifecycle import JobState, TaskState
from tests.support.frameworks import torch_folder
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

TRAIN = Path(__file__).parents[1] / "support" / "elastic_train.py"


def trained(client: Client) -> list[str]:
    """Return the sizes at which training has gone on so far, as the members say."""
    return [size for record in client.logs("train") for size in re.findall(r"goes on size=(\d)", record.text)]


@pytest.mark.nightly  # test_a_job_grows_on_idle_machines_and_gives_them_back, without torch
@pytest.mark.timeout(400)
def test_stock_torchrun_grows_and_gives_back_what_a_job_of_higher_priority_needs(tmp_path: Path) -> None:
    stop, torch = tmp_path / "stop", torch_folder()
    with LocalCluster().running() as cluster, cluster.client() as client:
        cores = (client.node("local").resources.cpu if client.node("local").resources else 0) / 1000
        worker = {
            "command": f"exec torchrun --monitor-interval 0.2 {TRAIN} {tmp_path / 'checkpoint'} {stop}",
            "framework": "torchrun",
            "env": {"PATH": f"{torch}/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1", "CHECKPOINT_EVERY": "20"},
            "resources": {"cpu": 0.45 * cores},
            "autoscale": {"cooldown": "4s"},
        }
        client.start({"name": "train", "components": {"worker": {**worker, "min": 1, "max": 2}}})
        wait_until(lambda: trained(client).count("1") == 1, 90, "training alone", 0.5)
        wait_until(lambda: trained(client).count("2") == 2, 120, "training of two", 0.5)
        urgent = {"main": {"command": "sleep 1000", "resources": {"cpu": 0.5 * cores}}}
        client.start({"name": "urgent", "priority": 5, "components": urgent})
        wait_until(lambda: client.tasks("urgent")[0].state is TaskState.RUNNING, 60, "the job of higher priority", 0.5)
        wait_until(lambda: trained(client).count("1") == 2, 90, "training alone again", 0.5)
        filed = [(each.from_size, each.to_size, each.author, each.outcome) for each in client.operations("train")]
        assert filed == [(1, 2, "grass", "DONE"), (2, 1, "grass", "DONE")]
        stop.touch()
        assert client.wait("train", 60.0).state is JobState.SUCCEEDED
        assert client.job("train").restarts == 0
