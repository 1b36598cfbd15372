"""Actors and a learner with the real ``maro.communication.Proxy`` (pymaro 0.3.2a4, Python 3.8) on a local cluster.

They find each other through the redis for tasks, whose host and port they have from their environment. The cluster is
made from a settings file of MARO, which names the port of that redis.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.api.client import Client
from grass.manifest import read_document
from grass.manifest.local_settings import LocalSettings
from grass.manifest.settings import parse_settings
from tests.support.example_run import free_port
from tests.support.frameworks import maro_folder
from tests.support.local_cluster import LocalCluster

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]

SETTINGS = """
mode: grass/local
name: maro
master:
  redis: {{port: {port}}}
  resource: {{cpu: 4, memory: 2048m, gpu: 0}}
  agents: {{check_interval: 30}}
"""
PEERS = """
import os
from maro.communication import Proxy, SessionType

def proxy(kind, peers):
    address = (os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"]))
    return Proxy(os.environ["JOB_ID"], kind, peers, redis_address=address)
"""
ACTOR = """
import sys
from peers import proxy

mine = proxy("actor", {"learner": 1})
message = mine.receive_once()
mine.reply(message, tag="sum", body=sum(message.body))
mine.close()
"""
LEARNER = """
import os
from peers import SessionType, proxy

mine = proxy("learner", {"actor": 2})
work = [(peer, list(range(100 * number))) for number, peer in enumerate(mine.peers["actor"], 1)]
replies = mine.scatter("work", SessionType.TASK, work)
print("sums", sorted(reply.body for reply in replies), os.environ["REDIS_PORT"])
mine.close()
"""


@pytest.fixture
def settings() -> LocalSettings:
    return parse_settings(read_document(SETTINGS.format(port=free_port())))


@pytest.fixture
def client(settings: LocalSettings) -> Iterator[Client]:
    with LocalCluster(settings).running() as cluster, cluster.client() as client:
        yield client


def test_actors_and_a_learner_of_maro_find_each_other(client: Client, settings: LocalSettings, tmp_path: Path) -> None:
    python = str(maro_folder() / "bin" / "python")
    for name, program in {"peers.py": PEERS, "actor.py": ACTOR, "learner.py": LEARNER}.items():
        (tmp_path / name).write_text(program)
    part = {"resources": {"cpu": 0.1, "memory": "256MiB"}}
    components = {
        "actor": {**part, "command": [python, "actor.py"], "replicas": 2},
        "learner": {**part, "command": [python, "learner.py"]},
    }
    client.start({"name": "maro", "components": components}, cwd=tmp_path)
    view = client.wait("maro", 120)
    said = [f"{each.task}: {each.text}" for each in client.logs("maro")]
    assert view.state == "SUCCEEDED", said
    port = settings.task_redis
    assert any(f"sums [4950, 19900] {port}" in each for each in said), said
