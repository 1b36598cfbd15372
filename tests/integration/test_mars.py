"""Unmodified Mars (pymars 0.10) on a real cluster: a supervisor and two workers, of which one is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from grass.api.client import ApiClient
from tests.support.frameworks import mars_folder
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

SECONDS = 240.0
COMPUTE = """
import mars, mars.tensor as mt
with mars.new_session("{web}") as session:
    print("sum", int(mt.ones((1000, 1000), chunk_size=250).sum().execute(session=session).fetch(session=session)))
"""


@pytest.fixture(scope="module")
def mars() -> Path:
    return mars_folder()


@pytest.fixture(scope="module")
def client(mars: Path) -> Iterator[ApiClient]:
    with LocalCluster().running() as cluster, cluster.client() as client:
        yield client


def job(mars: Path) -> dict[str, object]:
    part = {"framework": "mars", "env": {"PATH": f"{mars}/bin:/usr/bin:/bin"}, "resources": {"cpu": 0.1}}
    return {
        "name": "mars",
        "components": {
            "supervisor": {**part, "command": "mars-supervisor", "ports": ["mars", "web"], "ready": {"port": "web"}},
            "worker": {
                **part,
                "command": "mars-worker",
                "ports": ["mars"],
                "replicas": 2,
                "min": 1,
                "max": 3,
                "depends_on": {"supervisor": "ready"},
                "restart": {"policy": "on-failure", "limit": 3, "backoff": "0s"},
            },
        },
    }


def workers(web: str) -> set[str]:
    """Return the endpoints of the workers that the supervisor takes for alive."""
    try:
        with urllib.request.urlopen(f"{web}/api/cluster/nodes?role=1", timeout=10) as answer:
            nodes = json.load(answer)["nodes"]
    except OSError:
        return set()
    return {endpoint for endpoint, node in nodes.items() if node["status"] == 1}


def endpoints(client: ApiClient) -> set[str]:
    """Return the endpoints of the workers that listen."""
    tasks = [task for task in client.tasks("mars", "worker") if task["state"] == "RUNNING"]
    found = set()
    for port in (task["ports"]["mars"] for task in tasks):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            found.add(f"127.0.0.1:{port}")
    return found


def processes(job_id: str, task: str = "", attempt: str = "") -> list[int]:
    """Return all processes with the environment of a job's task, also those that others adopted."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            env = process.environ()
            if env.get("GRASS_TOKEN", "").startswith(f"{job_id}/{task}") and attempt in ("", env["GRASS_ATTEMPT"]):
                found.append(process.pid)
    return found


def segments() -> set[str]:
    return set(os.listdir("/dev/shm"))


def test_a_killed_worker_is_replaced_and_nothing_of_mars_is_left_behind(client: ApiClient, mars: Path) -> None:
    before = segments()
    job_id = client.start(job(mars))["id"]
    wait_until(lambda: "supervisor.0" in running(client), SECONDS, "the supervisor")
    [supervisor] = client.tasks("mars", "supervisor")
    web = f"http://127.0.0.1:{supervisor['ports']['web']}"
    wait_until(lambda: len(workers(web)) == 2, SECONDS, "two workers", 0.5)
    assert computed(mars, web) == "sum 1000000\n"

    [victim] = [task for task in client.tasks("mars", "worker") if task["task"] == "worker.1"]
    os.kill(victim["pid"], signal.SIGKILL)  # its pool processes survive that, unless Grass ends them
    wait_until(lambda: attempt(client, "worker.1") == 2 and "worker.1" in running(client), SECONDS, "its replacement")
    wait_until(lambda: not processes(job_id, "worker.1/", "1"), 30, "the end of the killed worker's processes")
    wait_until(lambda: processes(job_id, "worker.1/", "2"), 30, "processes of its replacement")
    # the supervisor takes a killed worker for alive for a while, and sends work to it
    wait_until(lambda: workers(web) == endpoints(client), SECONDS, "the two workers that run", 0.5)
    assert computed(mars, web) == "sum 1000000\n"

    client.stop("mars")
    assert client.wait("mars", SECONDS)["state"] == "STOPPED"
    wait_until(lambda: not processes(job_id), 30, "the end of all processes")
    wait_until(lambda: segments() <= before, 30, f"the removal of segments; left: {segments() - before}")


def computed(mars: Path, web: str) -> str:
    """Return what a computation on the workers prints."""
    command = [str(mars / "bin" / "python"), "-c", COMPUTE.format(web=web)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def running(client: ApiClient) -> list[str]:
    return [task["task"] for task in client.tasks("mars") if task["state"] == "RUNNING"]


def attempt(client: ApiClient, name: str) -> int:
    return next(int(task["attempt"]) for task in client.tasks("mars") if task["task"] == name)
