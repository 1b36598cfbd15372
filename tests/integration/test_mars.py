"""Unmodified Mars (pymars 0.10) on a real cluster: the MarsJob of KubeDL's documents, and a worker that is killed.

And each configuration that Grass makes, with a worker of Mars.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from grass.api.client import Client
from grass.api.foreign_phase import foreign_phase
from grass.frameworks.registry import render
from grass.frameworks.seat import Seat, files_folder, library_folder
from grass.manifest.local_settings import LocalSettings, OfferedResources
from grass.model.framework import Framework, FrameworkName, Option
from grass.wire.membership import Member, Membership
from node.membership.files import LIBRARY
from tests.support.frameworks import mars_folder
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)
"""To start Mars takes 17 s of processor time: beside other tests, more than the time that others have."""

GRASS = Path(sys.executable).parent / "grass"
MANIFEST = Path("tests/support/manifests/mars_job.yml")
SECONDS = 220.0
COMPUTE = """
import mars, mars.tensor as mt
with mars.new_session("{web}") as session:
    print("sum", int(mt.ones((1000, 1000), chunk_size=250).sum().execute(session=session).fetch(session=session)))
"""
DOCUMENTED = """
import mars.tensor as mt
import mars.dataframe as md
from mars import new_session
new_session("{web}").as_default()
a = mt.ones((2000, 2000), chunk_size={chunk})
b = mt.inner(a, a)
b.execute()
print("inner", int(b.sum().execute().fetch()))
df = md.DataFrame(a).sum()
print("sums", int(df.execute().fetch().sum()))
"""
"""What KubeDL's documents compute. Their chunks, of 200, are 1,100 subtasks of which each takes a tenth of a second."""
CONFIGURATIONS: dict[str, dict[str, Option]] = {
    "everything": {
        "plasmaStore": "/etc/pstore/none",
        "lockFreeFileIO": False,
        "spillDirs": ("SPILL/a", "SPILL/b"),
        "workerCachePercentage": 80,
    },
    "size": {"workerCacheSize": 1 << 29},
    "percentage": {"workerCachePercentage": 10},
    "store": {"plasmaStore": "/dev/shm"},
    "spill": {"spillDirs": ("SPILL/a",)},
}


@pytest.fixture(scope="module")
def mars() -> Path:
    return mars_folder()


@pytest.fixture(scope="module")
def cluster(mars: Path) -> Iterator[LocalCluster]:
    with LocalCluster(LocalSettings(resources=OfferedResources(cpu=8000, memory=8 << 30))).running() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


@pytest.fixture(scope="module")
def applied(cluster: LocalCluster, mars: Path) -> Iterator[None]:
    """Start the MarsJob of KubeDL's documents, word for word, on a machine where a supervisor was killed before.

    It left a file with its address. A process with its number is there, as if it still ran.
    """
    other = Path(tempfile.gettempdir()) / f"mars_service_process.{os.getpid()}"
    environment = {**os.environ, "GRASS_HOME": str(cluster.home), "PATH": f"{mars}/bin:/usr/bin:/bin"}
    command = [str(GRASS), "apply", str(MANIFEST)]
    other.write_text("127.0.0.1:1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    yield
    other.unlink()


@pytest.fixture
def documented(applied: None, client: Client) -> str:
    """Return the address of its page. A worker takes seconds of processor time until it has imported Mars."""
    return page(client, "mars-test-demo")


def page(client: Client, name: str) -> str:
    """Return the address of a job's page, once its supervisor knows its two workers, and no other.

    It takes a killed worker for alive for a while, and sends work to it.
    """
    wait_until(lambda: "supervisor.0" in running(client, name), SECONDS, "the supervisor")
    [supervisor] = client.tasks(name, "supervisor")
    web = f"http://127.0.0.1:{(supervisor.ports or {})['web']}"
    wait_until(lambda: len(workers(web)) == 2 and workers(web) == endpoints(client, name), SECONDS, "two workers", 0.5)
    return web


def test_the_documented_mars_job_runs_with_two_workers(applied: None, client: Client) -> None:
    page(client, "mars-test-demo")
    job = client.job("mars-test-demo")
    assert (job.dialect, foreign_phase(job, [])) == ("MarsJob", "MarsJob: Running")


@pytest.mark.nightly  # test_launchers.py and test_elastic_torch.py run real frameworks in every run
def test_the_documented_mars_job_computes(documented: str, mars: Path) -> None:
    assert computed(mars, DOCUMENTED.format(web=documented, chunk=1000)) == "inner 8000000000\nsums 4000000\n"


@pytest.mark.nightly  # test_the_documented_mars_job_computes shows the same with fewer subtasks
@pytest.mark.timeout(900)
def test_the_documented_mars_job_computes_the_documented_chunks(documented: str, mars: Path) -> None:
    assert computed(mars, DOCUMENTED.format(web=documented, chunk=200)) == "inner 8000000000\nsums 4000000\n"


@pytest.mark.nightly  # as the test before this one
def test_a_cache_is_bounded_where_there_is_no_plasma_store(documented: str, mars: Path, tmp_path: Path) -> None:
    with worker(documented, mars, tmp_path, "everything", memory=1 << 30) as said:
        assert "the cache of 858993459 bytes is in shared memory" in said.read_text()


@pytest.mark.nightly  # test_a_cache_is_bounded_where_there_is_no_plasma_store starts the largest configuration
@pytest.mark.timeout(900)
@pytest.mark.parametrize("memory", [0, 1 << 30])
@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name != "everything"])
def test_every_configuration_starts(documented: str, mars: Path, tmp_path: Path, name: str, memory: int) -> None:
    with worker(documented, mars, tmp_path, name, memory):
        pass


@contextmanager
def worker(web: str, mars: Path, folder: Path, name: str, memory: int) -> Iterator[Path]:
    """Run one more worker, as Grass would start it with the configuration, until the supervisor knows it."""
    with urllib.request.urlopen(f"{web}/api/cluster/nodes?role=0", timeout=10) as answer:
        [supervisor] = json.load(answer)["nodes"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options: dict[str, Option] = {
        key: tuple(each.replace("SPILL", str(folder)) for each in value) if isinstance(value, tuple) else value
        for key, value in CONFIGURATIONS[name].items()
    }
    chief = Member("supervisor.0", 1, "n", "127.0.0.1", 1, 0, {"mars": int(supervisor.rpartition(":")[2])})
    seat = Seat(
        job="j",
        job_id="j-1",
        component="worker",
        index=0,
        attempt=1,
        address="127.0.0.1",
        framework=Framework(FrameworkName.MARS, options),
        folder=str(folder),
        scratch=str(folder),
        memberships={"supervisor": Membership(1, 1, 1, 1, 1, 1, (chief,))},
        ports={"mars": port},
        cpu=1000,
        memory=memory,
    )
    made = render(seat)
    shutil.copytree(LIBRARY, library_folder(seat.folder))
    for file, text in made.files.items():
        path = Path(files_folder(seat.folder, seat.component)) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    said = folder / "said"
    with said.open("w") as output:
        process = subprocess.Popen(
            [str(mars / "bin/mars-worker"), *made.arguments],
            env={**os.environ, **made.env},
            stderr=output,
            stdout=output,
        )
    try:
        known = f"127.0.0.1:{port}"
        wait_until(lambda: known in workers(web) or process.poll() is not None, SECONDS, "the worker", 0.5)
        assert process.poll() is None, said.read_text()
        yield said
    finally:
        for each in (*psutil.Process(process.pid).children(recursive=True), process):
            with suppress(psutil.Error, ProcessLookupError):
                each.kill()
        process.wait()


def job(mars: Path) -> dict[str, object]:
    part = {"framework": "mars", "env": {"PATH": f"{mars}/bin:/usr/bin:/bin"}, "resources": {"cpu": 0.1}}
    return {
        "name": "mars",
        "components": {
            "supervisor": {**part, "command": "mars-supervisor", "ports": ["mars", "web"], "ready": {"port": "web"}},
            "worker": {
                **part,
                "framework": {"name": "mars", "workerCachePercentage": 10},
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


def endpoints(client: Client, name: str) -> set[str]:
    """Return the endpoints of the workers that listen."""
    tasks = [task for task in client.tasks(name, "worker") if task.state == "RUNNING"]
    found = set()
    for port in ((task.ports or {})["mars"] for task in tasks):
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


@pytest.mark.nightly  # test_the_documented_mars_job_computes runs Mars in every run
@pytest.mark.timeout(900)
def test_a_killed_worker_is_replaced_and_nothing_of_mars_is_left_behind(client: Client, mars: Path) -> None:
    before = segments()
    job_id = client.start(job(mars)).id
    web = page(client, "mars")
    assert computed(mars, COMPUTE.format(web=web)) == "sum 1000000\n"

    [victim] = [task for task in client.tasks("mars", "worker") if task.task == "worker.1"]
    os.kill(victim.pid, signal.SIGKILL)  # its pool processes survive that, unless Grass ends them
    wait_until(lambda: attempt(client, "worker.1") == 2, SECONDS, "its second attempt")
    wait_until(lambda: "worker.1" in running(client, "mars"), SECONDS, "its replacement")
    wait_until(lambda: not processes(job_id, "worker.1/", "1"), 30, "the end of the killed worker's processes")
    wait_until(lambda: processes(job_id, "worker.1/", "2"), 30, "processes of its replacement")
    assert page(client, "mars") == web
    assert computed(mars, COMPUTE.format(web=web)) == "sum 1000000\n"

    client.stop("mars")
    assert client.wait("mars", SECONDS).state == "STOPPED"
    wait_until(lambda: not processes(job_id), 30, "the end of all processes")
    wait_until(lambda: segments() <= before, 30, f"the removal of segments; left: {segments() - before}")


def computed(mars: Path, program: str) -> str:
    """Return what a computation on the workers prints."""
    command = [str(mars / "bin" / "python"), "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def running(client: Client, name: str) -> list[str]:
    return [task.task for task in client.tasks(name) if task.state == "RUNNING"]


def attempt(client: Client, name: str) -> int:
    return next(int(task.attempt) for task in client.tasks("mars") if task.task == name)
