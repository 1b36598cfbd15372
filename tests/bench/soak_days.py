"""Does anything grow with time? 30 simulated days of one master-agent in one process, on a clock that jumps.

    .venv/bin/python tests/bench/soak_days.py --days 30

The reactor, planner and recovery are the real ones, over a store in memory. Each day: a schedule fires every hour, jobs
with a time limit of a week run, one node is silent, one is lost and comes back, one leaves and joins again. Each tenth
day, the master-agent is replaced. After each day: the memory of the process, with that of the simulation; what the
store has besides streams, which have bounds; timers; jobs. Printed: the slope of each figure in the last half with its
standard error, for each day. Marks of requests, which redis keeps for an hour, are removed.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import defaultdict
from dataclasses import replace

import figures
import psutil
from soak import slope_of

from grass.manifest import parse_job
from grass.manifest.schedule import parse_schedule
from grass.wire.tickets import JoinNode, RemoveNode, StartSchedule
from master.agent.step import Limits
from tests.support.world import World

STEP = 120.0
"""Seconds between two heartbeats of simulated nodes."""
SILENT_AFTER, LOST_AFTER = 2.5 * STEP, 10 * STEP
DAY = 86_400.0
HOURLY = {"name": "hourly", "cron": "0 * * * *", "job": {"components": {"t": {"command": "true", "replicas": 2}}}}
"""The job of the schedule."""
UNITS = {"process": "MiB", "store": "KiB", "keys": "", "timers": "", "jobs": ""}


class Days:
    def __init__(self, nodes: int, jobs: int, kept: int) -> None:
        limits = Limits(keep_jobs=kept, check_interval=STEP, silent_after=SILENT_AFTER, lost_after=LOST_AFTER)
        self.world = World(replace(limits))
        self.world.compares = False
        self._take_over()
        self.jobs, self.samples = jobs, defaultdict[str, list[float]](list)
        self._number = self.tasks = 0
        for number in range(nodes):
            self.world.add_node(f"n{number}", cpu=8, probe={"passed": True, "checks": []})
        self.world.api.ticket(StartSchedule(parse_schedule(HOURLY).schedule, "ann"))
        self.world.run()

    def day(self, number: int) -> None:
        names = sorted(self.world.nodes)
        silent, lost, leaves = (names[(number + at) % len(names)] for at in range(3))
        parts = 12
        for part in range(parts):
            for _ in range(self.jobs // parts):
                self._submit()
            self.world.nodes[silent].connected = part != 2
            self.world.nodes[lost].connected = part not in (4, 5)
            if part == 7:
                self._rejoin(leaves)
            if part == 9 and number % 10 == 9:
                self._take_over()
            self._pass(DAY / parts)
        self._measure()

    def _take_over(self) -> None:
        self.world.takeover()
        self.world.agenda.add(self.world.now, "housekeeping")

    def _submit(self) -> None:
        self._number += 1
        part = {"command": "train", "replicas": 5, "resources": {"cpu": 1}}
        self.world.submit(parse_job({"name": f"j{self._number}", "timeout": "7d", "components": {"t": part}}).job)

    def _pass(self, seconds: float) -> None:
        """Let time pass; what runs ends within a step."""
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.advance(STEP, STEP)
            for node in self.world.nodes.values():
                for key in list(node.running) if node.connected else ():
                    self.world.end(key)
                    self.tasks += 1

    def _rejoin(self, name: str) -> None:
        world = self.world
        world.api.ticket(RemoveNode(name, "ann", force=True))
        world.run()
        world.api.ticket(JoinNode(name, "0" * 64, "ann"))
        world.run()
        world.nodes[name].hello()
        world.run()
        assert {view["state"] for view in world.node_views() if view["name"] == name} == {"READY"}

    def _measure(self) -> None:
        gc.collect()
        backend = self.world.backend
        hashes = sum(len(key) + len(text) for each in backend._hashes.values() for key, text in each.items())
        for mark in [name for name in backend._strings if ":session:" in name]:
            backend.apply([("DEL", mark)])
        now = {
            "process": psutil.Process().memory_info().rss / 2**20,
            "store": hashes / 1024,
            "keys": len(backend._hashes) + len(backend._strings) + len(backend._streams) + len(backend._sets),
            "timers": len(self.world.agenda),
            "jobs": len(self.world.cluster.jobs),
        }
        for name, value in now.items():
            self.samples[name].append(value)
        figures.progress(", ".join(f"{name} {value:.4g} {UNITS[name]}".rstrip() for name, value in now.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=48, help="each day, besides those of the schedule")
    parser.add_argument("--kept", type=int, default=60, help="jobs that the master keeps")
    options = parser.parse_args()
    begin = time.monotonic()
    days = Days(options.nodes, options.jobs, options.kept)
    for number in range(options.days):
        days.day(number)
    half = range(options.days // 2, options.days)
    minutes = (time.monotonic() - begin) / 60
    print(f"{options.days} simulated days in {minutes:.1f} minutes, {days.tasks:,} tasks\n  [{figures.machine()}]")
    for name, values in days.samples.items():
        slope, error = slope_of([*half], values[half.start :])
        print(f"  {name:<12} {values[-1]:9.4g} {UNITS[name]:<4} {slope:+.3g} ± {error:.2g} each day")


if __name__ == "__main__":
    sys.exit(main())
