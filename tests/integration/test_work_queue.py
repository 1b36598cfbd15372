"""Work queues and notices in tasks of a real cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.api.client import Client
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
WORK = """
import os, pathlib, sys
sys.path.insert(0, {root!r})
import grass
for item in grass.queue("numbers").items():
    if item.tries == 1 and item.value == "7":
        os._exit(3)  # dies with the item in its hands
    acknowledged = item.ack()
    with open({log!r}, "a") as file:
        file.write(f"{{item.value}} {{acknowledged}}\\n")
"""
SAVE = """
import pathlib, sys, time
sys.path.insert(0, {root!r})
import grass
pathlib.Path({log!r}).write_text("begun")
while (notice := grass.notice()) is None:
    time.sleep(0.02)
pathlib.Path({log!r}).write_text(notice.reason)
notice.done()
time.sleep(60)
"""


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


def test_each_item_is_acknowledged_once_though_a_task_and_the_api_server_die(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    log, program = tmp_path / "log", tmp_path / "work.py"
    program.write_text(WORK.format(root=str(ROOT), log=str(log)))
    client.create_queue("numbers", lease=600)
    client.put_items("numbers", [str(number) for number in range(40)])
    worker = {"command": [sys.executable, str(program)], "replicas": 2, "restart": "on-failure"}
    client.start({"name": "numbers", "components": {"w": {**worker, "resources": {"cpu": 0.01}}}})
    wait_until(lambda: log.exists() and log.read_text(), 30)
    api = cluster.pid("master-api-server")
    assert api is not None
    os.kill(api, signal.SIGKILL)
    assert client.wait("numbers", 60).state == "SUCCEEDED"
    assert sorted(log.read_text().splitlines()) == sorted(f"{number} True" for number in range(40))
    view = client.queue("numbers")
    assert (view.ready, view.leased, view.dead, view.done) == (0, 0, 0, 40)
    client.delete_queue("numbers")


def test_a_suspended_job_saves_its_work_first(client: Client, tmp_path: Path) -> None:
    log, program = tmp_path / "log", tmp_path / "save.py"
    program.write_text(SAVE.format(root=str(ROOT), log=str(log)))
    worker = {"command": [sys.executable, str(program)], "notice": {"for": "50s"}, "resources": {"cpu": 0.01}}
    client.start({"name": "saver", "components": {"w": worker}})
    wait_until(lambda: log.exists() and log.read_text() == "begun", 30)
    done = client.wait_for_operation("saver", client.suspend("saver").id, 30)
    assert done.outcome is not None and done.outcome.value == "DONE"
    assert log.read_text() == "stopped because the job is being suspended by root"
    client.stop("saver")
