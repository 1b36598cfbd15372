"""Does anything grow? Many tasks through one master-agent, while 200 nodes come and go and old jobs are removed.

    nice -n 10 .venv/bin/python tests/bench/soak.py --tasks 1000000 --minutes 15

A real redis and a real master-agent; the nodes are those of ``fleet.py``. After each block of jobs: the memory of the
master-agent and of redis (without its events, of which it keeps 100,000), keys, log files, the wait of a ticket, and
the time of the block. Once ``--kept`` jobs have ended, older ones are removed, so all of it should stay as it is: the
slope of each figure in the last half is printed with its standard error, for 100,000 tasks. Each job has a log file, as
the collector would write it. What that would remove is removed after each block, and so are the marks of requests,
which redis keeps for an hour.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import figures
import numpy
import psutil
from fleet import FleetCluster
from fleet_nodes import FleetNode

from grass.config import MasterConfig
from grass.model.job import Component, Job
from grass.model.lifecycle import NodeState
from grass.model.resources import Resources
from grass.store.node_store import NodeStore
from grass.wire.log_block import DELETED
from grass.wire.tickets import JoinNode, RemoveNode
from tests.support.sessions import sighting
from tests.support.waiting import wait_until

NODES, CPU = 200, 4
TASKS = 10
"""Of each job."""
COME_AND_GO = 5
"""Nodes that are away during a block, and nodes that leave and join again after it."""
PER = 100_000
"""Tasks that slopes are given for."""
STUCK_AFTER = 300.0
UNITS = {"master-agent": "MiB", "redis": "MiB", "keys": "", "log files": "", "ticket": "ms", "block": "s"}


class Soak:
    def __init__(self, cluster: FleetCluster, kept: int, jobs: int) -> None:
        self.cluster, self.kept, self.jobs = cluster, kept, jobs
        self.logs = Path(cluster.config.home) / "data" / "logs"
        self.samples: dict[str, list[float]] = defaultdict(list)
        self.tasks: list[int] = []
        self._chance, self._numbers = random.Random(1), itertools.count()
        self._redis = cluster.connect()
        self._last = "0-0"

    def block(self) -> None:
        nodes = self.cluster.fleet.nodes
        away = self._chance.sample(nodes, COME_AND_GO)
        for node in away:
            node.heard = False
        asking, begin = self.cluster.waits(), time.perf_counter()
        self._run_jobs()
        taken = time.perf_counter() - begin
        waits = asking.end()
        for node in away:
            node.heard = True
        for node in self._chance.sample(nodes, COME_AND_GO):
            self._rejoin(node)
        self._clear()
        self._measure(taken, figures.quantile(waits, 0.5) if waits else 0.0)

    def _run_jobs(self) -> None:
        part = Component("t", "true", replicas=TASKS, resources=Resources(cpu=1000))
        waiting = set()
        for _ in range(self.jobs):
            name = f"soak-{next(self._numbers)}"
            job_id = f"{name}-00000000"
            log = self.logs / job_id / "t.0.jsonl"
            log.parent.mkdir(parents=True)
            log.write_text("{}\n")
            job, seen = Job(name, {"t": part}, ("t",)), sighting(self.cluster.api)
            self.cluster.api.submit(job, job_id=job_id, user="soak", now=time.time(), warnings=[], sighting=seen)
            waiting.add(name)
        until = time.monotonic() + STUCK_AFTER
        while waiting:
            assert time.monotonic() < until, f"{len(waiting)} jobs do not end, such as {sorted(waiting)[0]}"
            events, self._last = self.cluster.api.wait_events(self._last, 1.0)
            waiting -= {event.record.job for event in events if event.record.kind == "job-succeeded"}

    def _rejoin(self, node: FleetNode) -> None:
        """Remove a node by force, and have one of the same name join."""
        api, name = self.cluster.api, node.name
        api.ticket(RemoveNode(name, "soak", force=True))
        self._until(lambda: self._state(name) in (None, NodeState.LEFT), f"the end of {name}")
        api.ticket(JoinNode(name, "0" * 64, "soak"))
        self._until(lambda: self._state(name) is NodeState.JOINING, f"the record of {name}")
        NodeStore(self._redis, self.cluster.keys, name).report([node.greeting()])
        self._until(lambda: self._state(name) is NodeState.READY, f"{name}")

    def _clear(self) -> None:
        """Remove what the collector would, and what an hour would."""
        for folder in self.logs.glob(f"{DELETED}*"):
            shutil.rmtree(folder, ignore_errors=True)  # the master-agent may remove the same
        own = self._redis._redis
        if marks := list(own.scan_iter(match=f"{self.cluster.config.key_prefix}session:*", count=5000)):
            own.delete(*marks)

    def _state(self, name: str) -> NodeState | None:
        record = self.cluster.api.node(name)
        return record.state if record else None

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, STUCK_AFTER, what)

    def _measure(self, taken: float, wait: float) -> None:
        own = self._redis._redis
        self.tasks.append((self.tasks[-1] if self.tasks else 0) + self.jobs * TASKS)
        now = {
            "master-agent": psutil.Process(self.cluster.agent.pid).memory_info().rss / 2**20,
            "redis": (own.info("memory")["used_memory"] - (own.memory_usage(self.cluster.keys.events) or 0)) / 2**20,
            "keys": own.dbsize(),
            "log files": sum(1 for _ in self.logs.iterdir()),
            "ticket": wait,
            "block": taken,
        }
        for name, value in now.items():
            self.samples[name].append(value)
        shown = ", ".join(f"{name} {value:.4g} {UNITS[name]}".rstrip() for name, value in now.items())
        figures.progress(f"{self.tasks[-1]:,} tasks: {shown}")

    def slopes(self) -> list[str]:
        """Return the slope of each figure with its standard error, in the last half."""
        full = next((at for at, tasks in enumerate(self.tasks) if tasks >= self.kept * TASKS), len(self.tasks))
        first = max(full, len(self.tasks) // 2)
        found = []
        for name, values in self.samples.items():
            if len(values) - first < 5:
                found.append(f"  {name:<14} {values[-1]:.4g} {UNITS[name]} (too few blocks for a slope)")
                continue
            slope, error = slope_of(self.tasks[first:], values[first:])
            level = sum(values[first:]) / len(values[first:])
            found.append(
                f"  {name:<14} {level:9.4g} {UNITS[name]:<4} {slope * PER:+.3g} ± {error * PER:.2g} per {PER:,}"
            )
        return found


def slope_of(places: list[int], values: list[float]) -> tuple[float, float]:
    """By least squares: the slope and its standard error."""
    x, y = numpy.array(places, float), numpy.array(values, float)
    x -= x.mean()
    slope = float((x * y).sum() / (x * x).sum())
    rest = y - y.mean() - slope * x
    return slope, float(numpy.sqrt((rest**2).sum() / (len(x) - 2) / (x * x).sum()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=15.0, help="end earlier than with all tasks")
    parser.add_argument("--kept", type=int, default=10_000, help="jobs that the master keeps")
    parser.add_argument("--block", type=int, default=500, help="jobs between two measurements")
    parser.add_argument("--nodes", type=int, default=NODES)
    options = parser.parse_args()
    begin = time.monotonic()
    with FleetCluster(
        options.nodes, CPU, 0.0, MasterConfig(keep_jobs=options.kept, check_interval=1.0, silent_after=30.0)
    ) as cluster:
        soak = Soak(cluster, options.kept, options.block)
        while (soak.tasks or [0])[-1] < options.tasks and time.monotonic() - begin < 60 * options.minutes:
            soak.block()
        minutes = (time.monotonic() - begin) / 60
        title = f"{soak.tasks[-1]:,} tasks in {minutes:.1f} minutes, {options.nodes} nodes, {options.kept:,} jobs kept"
        print(f"{title}\n  [{figures.machine()}]", *soak.slopes(), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
