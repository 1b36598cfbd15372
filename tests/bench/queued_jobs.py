"""A local cluster with 20,000 queued jobs: `grass status`, `grass job list`, a restart of the master-agent, memory.

The jobs go into the store by the step with which the API submits each, without its HTTP. A job that holds the whole
node keeps them waiting. Beside the two commands: Python's own start, which is in both.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import figures
from local_cluster import GRASS, LocalCluster, array, one_task
from memory import pss

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.manifest import parse_job
from grass.store.api_store import ApiStore
from grass.store.backend import Backend
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.store.sessions import Sighting
from grass.wire.tickets import StopJob

JOBS = 20_000
_PATIENCE = 120.0


def seconds(command: Sequence[object]) -> float:
    """From before the process is made until it has ended."""
    begin = time.perf_counter()
    subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def fill(cluster: LocalCluster, count: int) -> None:
    """Submit the jobs, and wait until the master-agent has taken every ticket."""
    hold(cluster)
    config = ClusterConfig.load(cluster.home / "clusters" / "local" / "cluster.json")
    backend, keys = open_backend(config, Secrets.load(config.home), "api"), Keys(config.key_prefix)
    try:
        store = ApiStore(backend, keys)
        store.sessions.add("bench", "bench")
        for number in range(count):
            submit(store, number)
        await_tickets(backend, keys, count)
    finally:
        backend.close()


def end_all(cluster: LocalCluster, count: int) -> None:
    """Stop the jobs of ``fill``, which the cluster then keeps."""
    config = ClusterConfig.load(cluster.home / "clusters" / "local" / "cluster.json")
    backend, keys = open_backend(config, Secrets.load(config.home), "api"), Keys(config.key_prefix)
    try:
        store = ApiStore(backend, keys)
        for number in range(count):
            store.ticket(StopJob(job_id(number), "bench"))
        await_tickets(backend, keys, count)
    finally:
        backend.close()


def await_tickets(backend: Backend, keys: Keys, count: int) -> None:
    seconds = _PATIENCE + count / 100
    until = time.monotonic() + seconds
    while backend.newest(keys.tickets) is not None:
        if time.monotonic() > until:
            sys.exit(f"the master-agent did not take {count} tickets in {seconds:g} s")
        time.sleep(0.05)


def job_id(number: int) -> str:
    return f"queued-{number}-{number:08x}"


def hold(cluster: LocalCluster) -> None:
    """A task that has all of the node's cores."""
    cores = os.cpu_count() or 1
    job: dict[str, Any] = one_task("bench-holder", ["sleep", "100000"])
    job["components"]["task"]["resources"]["cpu"] = cores
    cluster.client.start(job)


def submit(store: ApiStore, number: int) -> None:
    """A job of its own kind in every tenth: users' jobs are alike, and not all the same."""
    name = f"queued-{number}"
    job = parse_job(array(name, ["/bin/sh", "-c", f"exec ./train --seed {number}"], 1 + number % 10)).job
    sighting = Sighting("bench", "bench", f"{number:016x}")
    store.submit(job, job_id=job_id(number), user="bench", now=time.time(), warnings=(), sighting=sighting)


def restart(cluster: LocalCluster) -> float:
    """Kill the master-agent; seconds until the next one answers what would become of a job."""
    pid = cluster.daemons()["master-agent"]
    begin = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    while True:
        try:
            cluster.client.plan(one_task("bench-question", ["/bin/true"]))
        except GrassError:
            if time.perf_counter() - begin > _PATIENCE:
                sys.exit("the master-agent did not come back")
        else:
            return time.perf_counter() - begin


def memory(cluster: LocalCluster, name: str) -> float:
    pids = cluster.daemons()
    return pss(pids[name], set(pids.values()))


def main() -> None:
    parser = figures.arguments(__doc__, rounds=5)
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many are queued (default: %(default)s)")
    options = parser.parse_args()
    measured: dict[tuple[str, str], list[float]] = {}

    def note(name: str, unit: str, value: float) -> None:
        measured.setdefault((name, unit), []).append(value)

    with LocalCluster() as cluster:
        fill(cluster, options.jobs)
        note("master-agent, after submissions", "MiB", memory(cluster, "master-agent"))
        for _ in range(options.rounds):
            note("grass status", "s", seconds([GRASS, "status"]))
            note("grass job list", "s", seconds([GRASS, "job", "list"]))
            note("grass job list --limit 100", "s", seconds([GRASS, "job", "list", "--limit", "100"]))
            note("python -c pass", "s", seconds([sys.executable, "-c", "pass"]))
            note("ready after a restart", "s", restart(cluster))
            note("master-agent, after a restart", "MiB", memory(cluster, "master-agent"))
        note("all jobs to a Client", "s", listing(cluster, options.jobs))
        note("master-api-server", "MiB", memory(cluster, "master-api-server"))
    found = [figures.Figure(name, samples, unit) for (name, unit), samples in measured.items()]
    bar = "status and list at most 0.3 s, master-agent at most 120 MiB, ready after a restart within 3 s"
    figures.report(options, f"{options.jobs} queued jobs", found, bar)


def listing(cluster: LocalCluster, count: int) -> float:
    begin = time.perf_counter()
    found = len(cluster.client.jobs())
    if found != count + 1:
        sys.exit(f"the client was told of {found} jobs instead of {count + 1}")
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
