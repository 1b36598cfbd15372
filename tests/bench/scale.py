"""How fast a running job changes its size: on a real local cluster, and with many members on simulated nodes.

On the local cluster: from the call to the first instruction of the new task; from the commit of the new generation
until every member has read it; from the call of a scale-in to its end. On the fleet: from the ticket until all nodes
have the new membership; then the CPU time of the master-agent while every member pulses each 2 s. A pulse of a task
ends at its own node. The master sees the heartbeat of the node, so each member has a node of its own here.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import figures
from fleet import FleetCluster
from local_cluster import LocalCluster

from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component, Job
from grass.model.resources import Resources
from grass.wire.tickets import ScaleJob
from tests.support.sessions import sighting

WATCH = """
import json, os, sys, time
folder, index, seen = sys.argv[1], os.environ["GRASS_INDEX"], None
with open(f"{folder}/{index}.start", "w") as file:
    file.write(repr(time.time()))
while True:
    generation = json.load(open(os.environ["GRASS_MEMBERSHIP"]))["generation"]
    if generation != seen:
        seen = generation
        with open(f"{folder}/{index}.{generation}.part", "w") as file:
            file.write(repr(time.time()))
        os.rename(file.name, file.name.removesuffix(".part"))
    time.sleep(0.002)
"""
"""What a member does: notes when it started, and when it first read each generation."""


def stamp(path: Path) -> float:
    """The time in the file, once it is there."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            return float(path.read_text())
        except (OSError, ValueError):
            time.sleep(0.002)
    sys.exit(f"{path.name} was not written")


def local(rounds: int) -> list[figures.Figure]:
    started, known, left = [], [], []
    with LocalCluster() as cluster:
        folder = cluster.folder
        command = [sys.executable, "-S", "-c", WATCH, str(folder)]
        worker = {"command": command, "replicas": 2, "min": 1, "max": 3, "framework": "none", "resources": {"cpu": 0.1}}
        client = cluster.client
        job = client.start({"name": "bench-scale", "components": {"worker": worker}}).id
        for index in range(2):
            stamp(folder / f"{index}.start")
        for _ in range(rounds):
            (folder / "2.start").unlink(missing_ok=True)
            begin = time.time()
            operation = client.scale(job, "worker", 3)
            operation = client.wait_for_operation(job, operation.id)
            started.append(1000 * (stamp(folder / "2.start") - begin))
            seen = [stamp(folder / f"{index}.{operation.generation}") for index in range(3)]
            known.append(1000 * (max(seen) - operation.ended))
            begin = time.time()
            operation = client.scale(job, "worker", 2)
            client.wait_for_operation(job, operation.id)
            left.append(1000 * (time.time() - begin))
        client.stop(job, grace=0)
        client.wait(job)
    return [
        figures.Figure("first instruction", started, "ms"),
        figures.Figure("all members know", known, "ms"),
        figures.Figure("scale-in", left, "ms"),
    ]


@contextmanager
def fleet_job(cluster: FleetCluster, members: int) -> Iterator[str]:
    framework = Framework(FrameworkName.NONE)
    worker = Component(
        "w", "x", replicas=members - 1, min=1, max=members, resources=Resources(cpu=1000), framework=framework
    )
    job_id = "bench-members-00000000"
    cluster.api.submit(
        Job("bench-members", {"w": worker}, ("w",)),
        job_id=job_id,
        user="bench",
        now=time.time(),
        warnings=[],
        sighting=sighting(cluster.api),
    )
    yield f"{job_id}/w"


def wait_generation(cluster: FleetCluster, key: str, nodes: int, more_than: int) -> int:
    """Wait until so many nodes know one newer generation, and return it."""
    while True:
        generations = [node.generations.get(key, 0) for node in cluster.fleet.nodes]
        newest = max(generations)
        if newest > more_than and generations.count(newest) >= nodes:
            return newest
        time.sleep(0.002)


def many(members: int, rounds: int, seconds: float) -> list[figures.Figure]:
    samples, costs = [], []
    with FleetCluster(members, 1, 10_000.0) as cluster, fleet_job(cluster, members) as key:
        generation = wait_generation(cluster, key, members - 1, 0)
        for number in range(rounds):
            for size, nodes in ((members, members), (members - 1, members - 1)):
                begin = time.perf_counter()
                name = f"{number}-{size}"
                job_id = key.partition("/")[0]
                cluster.api.ticket(ScaleJob(job_id=job_id, id=name, user="bench", component="w", size=size))
                generation = wait_generation(cluster, key, nodes, generation)
                if size == members:
                    samples.append(1000 * (time.perf_counter() - begin))
                while (found := cluster.api.operation(job_id, name)) is None or found.unfinished:
                    time.sleep(0.01)
        costs.append(cluster.idle(seconds))
    return [
        figures.Figure(f"{members} members know", samples, "ms"),
        figures.Figure(f"{members} members pulse, master-agent", costs, "%"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--idle", type=float, default=20.0, help="seconds of pulses (default: %(default)s)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = [*local(options.rounds), *many(options.members, options.rounds, options.idle)]
    bar = (
        "first instruction ≤ 1 s, all members know ≤ 200 ms, scale-in ≤ 1 s; 200 members know ≤ 1 s and pulse for "
        "≤ 5 % of a core"
    )
    figures.report(options, "a job changes its size while it runs", found, bar)


if __name__ == "__main__":
    main()
