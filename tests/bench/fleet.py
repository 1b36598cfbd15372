"""A large fleet in one process: what it costs the master-agent to do nothing, to notice silence, and to run tasks.

A real redis and a real master-agent; the nodes speak the node protocol, their tasks only take time. Everything shares
this machine's cores, so what is measured of the master-agent is its CPU time, not its share of a busy machine; that of
redis and of the nodes stands beside it. How long tickets wait does depend on what else runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import figures
import psutil
from fleet_nodes import Fleet
from fleet_tickets import Waits

from grass.config import ClusterConfig, MasterConfig, RedisConfig, Secrets
from grass.model.job import Component, Job
from grass.model.lifecycle import NodeState
from grass.model.resources import Resources
from grass.store import embedded
from grass.store.api_store import ApiStore
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.system.entropy import password
from grass.wire.tickets import JoinNode
from tests.support.sessions import sighting

USERS = ("admin", "agent", "api", "node")
READY_WITHIN = 120.0


class NotReadyError(Exception):
    """The nodes of a fleet do not become READY."""


class FleetCluster:
    """redis, master-agent and ``count`` nodes that are READY. Use as a context."""

    def __init__(self, count: int, cpu: int, seconds: float, master: MasterConfig | None = None) -> None:
        self.count = count
        self._folder = tempfile.TemporaryDirectory(prefix="fleet-", dir="/tmp")
        home = Path(self._folder.name)
        (home / "data").mkdir()
        self.socket = home / "redis.sock"
        redis = RedisConfig(embedded=True, socket=str(self.socket))
        settings = master or MasterConfig()
        self.config = ClusterConfig("fleet", "grass/on-premises", str(home), str(home), redis, settings)
        self.config.save()
        self._passwords = {user: password() for user in USERS}
        Secrets(self._passwords, password()).save(home)
        self.keys = Keys(self.config.key_prefix)
        self._redis = self._start_redis(home)
        self.api = ApiStore(self.connect(), self.keys)
        with (home / "master-agent.log").open("w") as log:
            command = [sys.executable, "-m", "master.agent", str(self.config.path)]
            self.agent = subprocess.Popen(command, stdout=log, stderr=log)
        processes = {"master-agent": self.agent.pid, "redis": self._redis.pid, "nodes and client": None}
        self._measured = {name: psutil.Process(pid) for name, pid in processes.items()}
        self.fleet = Fleet(self.connect, self.keys, count, cpu, seconds)

    def _start_redis(self, home: Path) -> subprocess.Popen[bytes]:
        server = embedded.find_server()
        files = embedded.write_files(
            home / "redis",
            server=server,
            socket=self.socket,
            prefix=self.config.key_prefix,
            node="nobody",
            passwords=self._passwords,
        )
        process = subprocess.Popen([server.path, files.conf], stdout=subprocess.DEVNULL)
        while not self.socket.exists():
            time.sleep(0.01)
        return process

    def connect(self) -> RedisBackend:
        return RedisBackend(unix_socket_path=str(self.socket), username="admin", password=self._passwords["admin"])

    def __enter__(self) -> FleetCluster:
        begin = time.perf_counter()
        self.fleet.hello()
        for node in self.fleet.nodes:
            self.api.ticket(JoinNode(node.name, "0" * 64, "bench"))
        self.fleet.start()  # before they are READY: one that is silent until then never is
        try:
            self.wait_until_ready(READY_WITHIN)
        except BaseException:
            self.__exit__()
            raise
        figures.progress(f"{self.count} nodes READY after {time.perf_counter() - begin:.1f} s")
        return self

    def wait_until_ready(self, seconds: float) -> None:
        """Raises NotReadyError, which says what the nodes are instead."""
        until = time.monotonic() + seconds
        while (states := Counter(record.state.value for record in self.api.nodes()))["READY"] < self.count:
            if self.agent.poll() is not None:
                raise NotReadyError(f"the master-agent ended with {self.agent.returncode}; its log is above")
            if time.monotonic() > until:
                found = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none known"
                raise NotReadyError(f"not all of {self.count} nodes are READY after {seconds:g} s: {found}")
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self.fleet.end()
        for process in (self.agent, self._redis):
            process.terminate()
            process.wait(20)
        figures.progress((Path(self.config.home) / "master-agent.log").read_text()[-2000:])
        self._folder.cleanup()

    def cpu(self) -> dict[str, float]:
        """Seconds that each has used so far."""
        times = {name: process.cpu_times() for name, process in self._measured.items()}
        return {name: float(used.user + used.system) for name, used in times.items()}

    def idle(self, seconds: float) -> float:
        """The master-agent's share of one core, in percent."""
        time.sleep(3.0)
        before, begin = self.cpu(), time.perf_counter()
        time.sleep(seconds)
        return 100 * (self.cpu()["master-agent"] - before["master-agent"]) / (time.perf_counter() - begin)

    def silence(self, nodes: int) -> list[float]:
        """Seconds from the last sign of life of each until its record says SILENT; they are heard again afterwards."""
        quiet = self.fleet.nodes[:nodes]
        begin = time.perf_counter()
        for node in quiet:
            node.heard = False
        found: dict[str, float] = {}
        while len(found) < nodes:
            for node in quiet:
                view = self.api.node(node.name)
                if view is not None and view.state is NodeState.SILENT:
                    found.setdefault(node.name, time.perf_counter() - begin)
            time.sleep(0.02)
        for node in quiet:
            node.heard = True
        return list(found.values())

    def waits(self) -> Waits:
        return Waits(str(self.socket), self._passwords["admin"], self.config.key_prefix)

    def run_tasks(self, tasks: int, jobs: int) -> tuple[dict[str, float], float]:
        """``tasks`` in ``jobs`` arrays: microseconds of CPU for each, by process, and how many end in a second."""
        each = Component("t", "true", replicas=tasks // jobs, resources=Resources(cpu=1000))
        before, begin = self.cpu(), time.perf_counter()
        names = [f"bench-{int(begin * 1000) % 10**8}-{number}" for number in range(jobs)]
        for name in names:
            self.api.submit(
                Job(name, {"t": each}, ("t",)),
                job_id=f"{name}-00000000",
                user="bench",
                now=time.time(),
                warnings=[],
                sighting=sighting(self.api),
            )
        waiting = set(names)
        last = "0-0"
        while waiting:
            events, last = self.api.wait_events(last, 1.0)
            waiting -= {event.record.job for event in events if event.record.kind == "job-succeeded"}
        elapsed = time.perf_counter() - begin
        return {name: 1e6 * (used - before[name]) / tasks for name, used in self.cpu().items()}, tasks / elapsed


def measure(cluster: FleetCluster, options: argparse.Namespace) -> list[figures.Figure]:
    title = f"{cluster.count} nodes"
    found = [figures.Figure(f"{title}, nothing changes", [cluster.idle(options.idle)], "%")]
    asking = cluster.waits()
    time.sleep(3.0)
    found.append(figures.Figure(f"{title}, ticket, p99", [figures.quantile(asking.end(), 0.99)], "ms"))
    costs: dict[str, list[float]] = {}
    rates, late, waits = [], [], []
    for _ in range(options.rounds):
        asking = cluster.waits()
        used, rate = cluster.run_tasks(options.tasks, options.jobs)
        meanwhile = asking.end()
        for name, cost in used.items():
            costs.setdefault(name, []).append(cost)
        rates.append(rate)
        late.append(figures.quantile(meanwhile, 0.99))
        waits += meanwhile
    found += [figures.Figure(f"{title}, {name} per task", each, "µs") for name, each in costs.items()]
    found.append(figures.Figure(f"{title}, tasks", rates, "/s"))
    found.append(figures.Figure(f"{title}, ticket meanwhile, p99", late, "ms"))
    found.append(figures.Figure(f"{title}, ticket meanwhile, all", waits, "ms"))
    return [*found, figures.Figure(f"{title}, silence is noticed", cluster.silence(min(5, cluster.count)), "s")]


def main() -> None:
    parser = figures.arguments(__doc__, rounds=5)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 200, 1000])
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=1, help="so many arrays share the tasks (default: %(default)s)")
    parser.add_argument("--cpu", type=int, default=4, help="cores of each node (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.0, help="that a task takes (default: %(default)s)")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds of doing nothing (default: %(default)s)")
    options = parser.parse_args()
    found = []
    for count in options.nodes:
        with FleetCluster(count, options.cpu, options.seconds) as cluster:
            found += measure(cluster, options)
            figures.progress("\n".join(map(str, found)))
    bar = "25 % of a core, 100 ms, 400 µs at every size (HyperQueue 0.27: 57, 437, 3,050), 10 s"
    figures.report(options, f"a fleet, {options.tasks} tasks of {options.seconds:g} s", found, bar)


if __name__ == "__main__":
    main()
