"""Usage: what a node's samples cost, what they cost the monitor and redis, and how much memory full histories need.

200 nodes with 8 GPUs and 1,000 tasks report to a real redis. Measured is the CPU time of this process in the monitor's
turns. Histories are filled with a month of noisy figures of every node and task: the most that is kept of them.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import figures

from grass.model.lifecycle import NodeState
from grass.store.backend import Op
from grass.store.embedded import find_server
from grass.store.history_store import HistoryStore
from grass.store.keys import USAGE_KEPT, Keys
from grass.store.records import Records
from grass.store.redis_backend import RedisBackend
from grass.wire.codec import encode
from grass.wire.node_record import NodeRecord
from grass.wire.usage import GpuUsage, NodeSample, TaskSample, TaskTotals, UsageSample
from grass.wire.usage_history import LEVELS, Chunk, field
from master.monitor import figures as kept
from master.monitor.monitor import EVERY, WRITE_EVERY, Monitor
from node.agent.gpu_usage import GpuReading
from node.agent.own_figures import OwnFigures
from node.agent.usage_sampler import FirstProcess, Running, UsageSampler
from tests.support.redis_server import RedisServer

GPUS, CORES = 8, 64
_CHANCE = random.Random(1)


def sample(node: int, tasks: int) -> UsageSample:
    def near(figure: float) -> float:
        return figure * _CHANCE.uniform(0.9, 1.1)

    gpus = tuple(
        GpuUsage(
            id=index,
            utilisation=near(80),
            memory=int(near(60e9)),
            memory_total=80 << 30,
            power=near(500),
            temperature=int(near(60)),
            clock=1980,
            nvlink_sent=int(near(1e9)),
            nvlink_received=int(near(1e9)),
        )
        for index in range(GPUS)
    )
    machine = NodeSample(
        cpu=near(50),
        cores=tuple(round(near(50), 1) for _ in range(CORES)),
        load=near(30),
        memory=int(near(2e11)),
        memory_total=1 << 40,
        disk_used=int(near(1e12)),
        disk_total=1 << 42,
        disk_read=int(near(1e8)),
        disk_written=int(near(1e8)),
        network_sent=int(near(1e8)),
        network_received=int(near(1e8)),
        power=near(300),
        gpus=gpus,
    )
    running = tuple(
        TaskSample(
            key=f"job{node}-00000001/worker.{index}/1",
            cpu=near(8),
            memory=int(near(3e10)),
            gpu=near(90),
            gpu_memory=int(near(6e10)),
            read=int(near(1e7)),
            written=int(near(1e6)),
            power=near(600),
            files=50,
            threads=70,
            totals=TaskTotals(cpu=near(1e5), memory=1 << 35, gpu=near(1e4), energy=near(1e6)),
        )
        for index in range(tasks)
    )
    return UsageSample(round(time.time(), 3), machine, running)


def turns(backend: RedisBackend, keys: Keys, nodes: int, tasks: int, seconds: float) -> Iterator[float]:
    """Yield the share of a core, in percent, that the monitor needs: over one write and the turns since the last."""
    backend.apply(
        [("HSET", keys.nodes, f"n{n}", encode(NodeRecord(name=f"n{n}", state=NodeState.READY))) for n in range(nodes)]
    )
    now = [0.0]
    monitor = Monitor(Records(backend, keys), HistoryStore(backend, keys), lambda: now[0])
    monitor.turn()
    until = time.monotonic() + seconds
    first = True
    while first or time.monotonic() < until:
        used = 0.0
        for _ in range(int(WRITE_EVERY / EVERY)):
            ops: list[Op] = [
                ("XADD", keys.node_usage(f"n{n}"), USAGE_KEPT, "body", encode(sample(n, tasks))) for n in range(nodes)
            ]
            backend.apply(ops)
            now[0] += EVERY
            begin = time.process_time()
            monitor.turn()
            used += time.process_time() - begin
        if not first or time.monotonic() >= until:
            yield 100 * used / WRITE_EVERY
        first = False


def full_histories(backend: RedisBackend, keys: Keys, nodes: int, tasks: int) -> float:
    """Fill the histories with all that they keep. Return the MiB of redis' memory that this takes."""
    before = backend.figures()["used_memory"]
    now = 1_800_000_000.0
    for node in range(nodes):
        of_node, of_task = kept.of_node(sample(node, 0).node), kept.of_task(sample(node, 1).tasks[0])
        backend.apply(_month(keys.node_history(f"n{node}"), "", of_node, now))
        for index in range(tasks):
            backend.apply(_month(keys.job_history(f"job{node}-00000001"), f"worker.{index}", of_task, now))
    return (backend.figures()["used_memory"] - before) / (1 << 20)


def _month(key: str, subject: str, middle: Mapping[str, float], now: float) -> list[Op]:
    ops: list[Op] = []
    for level in LEVELS:
        for number in range(level.number(now) - level.kept + 1, level.number(now) + 1):
            chunk = Chunk(level, number)
            for point in range(level.points):
                noisy = {name: figure * _CHANCE.uniform(0.9, 1.1) for name, figure in middle.items()}
                chunk.put(chunk.start + point * level.step, noisy)
            ops.append(("HSET", key, field(level, number, subject), chunk.pack()))
    return ops


def sampling(tasks: int, rounds: int) -> list[float]:
    """Return the share of a core, in percent, that the samples of a node with so many tasks need."""
    with tempfile.TemporaryDirectory() as folder:
        started = [subprocess.Popen(["sleep", "600"]) for _ in range(tasks)]
        running = {
            f"job-00000001/w.{index}/1": Running(FirstProcess(task.pid, 0.0)) for index, task in enumerate(started)
        }
        sampler = UsageSampler(
            Path(folder), lambda: running, GpuReading, lambda made: (encode(made), None)[1], OwnFigures()
        )
        from node.agent.machine_usage import MachineUsage

        machine, shares = MachineUsage(Path(folder)), []
        sampler._sample(machine)
        for _ in range(rounds):
            begin = time.process_time()
            sampler._sample(machine)
            shares.append(100 * (time.process_time() - begin) / EVERY)
        for task in started:
            task.kill()
            task.wait()
    return shares


def main() -> int:
    parser = figures.arguments(__doc__, 20)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=5, help="on each node (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure the monitor")
    parser.add_argument("--local-tasks", type=int, default=200, help="for the samples (default: %(default)s)")
    options = parser.parse_args()
    keys, server = Keys("grass:test:"), RedisServer(find_server())
    server.start()
    try:
        backend = server.backend()
        shares = list(turns(backend, keys, options.nodes, options.tasks, options.seconds))
        streams = backend.figures()["used_memory"] / (1 << 20)
        memory = full_histories(backend, keys, options.nodes, options.tasks)
        backend.close()
    finally:
        server.remove()
    told = f"{options.nodes} nodes × {GPUS} GPUs, {options.nodes * options.tasks} tasks"
    results = [
        figures.Figure("monitor", shares, "%"),
        figures.Figure("histories of a month", [memory], "MiB"),
        figures.Figure("redis with the streams", [streams], "MiB"),
        figures.Figure("a node's samples", sampling(options.local_tasks, options.rounds), "%"),
    ]
    bar = "monitor ≤ 10 % of a core, histories ≤ 256 MiB, samples ≤ 0.5 % of a core with 200 tasks"
    figures.report(options, f"usage of {told}", results, bar)
    return 0


if __name__ == "__main__":
    sys.exit(main())
