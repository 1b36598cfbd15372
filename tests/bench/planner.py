"""Placements per second on clusters of three sizes, a long queue of which nothing fits, and memory.

    .venv/bin/python tests/bench/planner.py

Also the same by a plain scan of all nodes for each task, in Python and with numpy: what the index is held against.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from grass.model.job import GpuNeed
from grass.model.resources import DEVICE, Resources
from master.planning.decide import decide
from master.planning.model import Allocation, Demand, Device, Node, Plan, QueuedJob, Shape, Snapshot
from tests.bench.figures import Figure, arguments, progress, report

GIB = 1 << 30


def machines(count: int) -> list[Node]:
    """Four kinds of machine; those with GPUs have eight."""
    nodes = []
    for number in range(count):
        cores, memory, gpus = ((16, 64, 0), (32, 128, 0), (64, 512, 8), (96, 768, 8))[number % 4]
        total = Resources(cores * 1000, memory * GIB, gpus * DEVICE, 500 * GIB)
        model = ("V100", "A100")[number % 8 // 4]
        devices = tuple(Device(each, model, (32, 80)[number % 8 // 4] * GIB) for each in range(gpus))
        labels = {"arch": ("x86_64", "aarch64")[number % 16 == 0]}
        nodes.append(Node(f"n{number:05}", total, total, devices, labels, (f"rack{number // 20}",)))
    return nodes


def shapes(kinds: int) -> list[Shape]:
    """Mixed needs: cores, memory, GPUs (whole, shares, of a model), labels, ports."""
    dice = random.Random(1)
    found = []
    for number in range(kinds):
        gpu = dice.choice([0, 0, 0, 0, 0, 0, 125, 250, 500, 1000])
        need = GpuNeed("A100") if gpu and dice.random() < 0.3 else GpuNeed()
        where = (("arch", ("x86_64",)),) if dice.random() < 0.2 else ()
        amounts = Resources(dice.choice([100, 250, 500, 1000]) + number % 7, dice.randint(1, 6) * GIB // 2, gpu)
        found.append(Shape(amounts, need, dice.choice([0, 0, 1, 2]), where))
    return found


def tasks(count: int, kinds: int) -> list[QueuedJob]:
    """Jobs of one task each, of so many kinds, from ten users in turn."""
    wanted = [Demand("worker", 1, shape) for shape in shapes(kinds)]
    weights = [0.1 if demand.shape.resources.gpu else 1 for demand in wanted]
    chosen = random.Random(2).choices(wanted, weights, k=count)
    return [QueuedJob(f"job-{n:08x}", f"user{n % 10}", n, (demand,)) for n, demand in enumerate(chosen)]


def rate(nodes: Sequence[Node], queue: Sequence[QueuedJob], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        plan = decide(Snapshot(nodes, queue))
        found.append(sum(placement.count for placement in plan.placements) / (time.perf_counter() - begun))
    return found


def full(count: int, limits: bool) -> tuple[list[Node], list[Allocation]]:
    """A cluster on which nothing is free, and what is held there: four tasks a node."""
    nodes = [
        Node(
            n.name, n.total, Resources(), tuple(Device(d.id, d.model, d.memory, 0) for d in n.devices), n.labels, n.path
        )
        for n in machines(count)
    ]
    held = []
    for number, node in enumerate(nodes):
        shape = Shape(Resources(node.total.cpu // 4, node.total.memory // 4, node.total.gpu // 4))
        for part in range(4):
            wide = len(node.devices) // 4
            mine = (tuple((device, DEVICE) for device in range(part * wide, part * wide + wide)),) if wide else ()
            ends = 60.0 * (number % 7 + part + 1) if limits else None
            held.append(Allocation(f"held{number}.{part}", "other", "t", node.name, 1, shape, mine, ends=ends))
    return nodes, held


def milliseconds(act: Callable[[], Plan], rounds: int, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    found = []
    for _ in range(rounds):
        begun = clock()
        act()
        found.append((clock() - begun) * 1000)
    return found


def rested(act: Callable[[], Plan], rounds: int) -> list[float]:
    """After the processor has done something else, as in a master-agent that wakes up for one task."""
    found = []
    for _ in range(rounds):
        time.sleep(0.05)
        found += milliseconds(act, 1)
    return found


def scan_python(nodes: Sequence[Node], queue: Sequence[QueuedJob]) -> int:
    """Best fit by looking at every node for every task; amounts only, no devices, no order, no reasons."""
    rows = [[n.free.cpu, n.free.memory, n.free.gpu, 1 / n.total.cpu, 1 / n.total.memory] for n in nodes]
    placed = 0
    for job in queue:
        wanted = job.demands[0].shape.resources
        cpu, memory, gpu, best, least = wanted.cpu, wanted.memory, wanted.gpu, None, 1e9
        for row in rows:
            if row[0] >= cpu and row[1] >= memory and row[2] >= gpu:
                score = (row[0] - cpu) * row[3] + (row[1] - memory) * row[4]
                if score < least:
                    best, least = row, score
        if best is not None:
            best[0] -= cpu
            best[1] -= memory
            best[2] -= gpu
            placed += 1
    return placed


def scan_numpy(nodes: Sequence[Node], queue: Sequence[QueuedJob]) -> int:
    """The same with arrays."""
    free = np.array([[n.free.cpu, n.free.memory, n.free.gpu] for n in nodes], np.int64)
    weights = np.array([[1 / n.total.cpu, 1 / n.total.memory] for n in nodes])
    placed = 0
    for job in queue:
        wanted = job.demands[0].shape.resources
        need = np.array([wanted.cpu, wanted.memory, wanted.gpu], np.int64)
        left = free - need
        score = np.where((left >= 0).all(axis=1), (left[:, :2] * weights).sum(axis=1), np.inf)
        best = int(score.argmin())
        if score[best] < np.inf:
            free[best] -= need
            placed += 1
    return placed


def compared(sizes: Sequence[int], tasks_each: int, rounds: int) -> list[Figure]:
    found = []
    for name, scan, share in (("scan in Python", scan_python, 50), ("scan with numpy", scan_numpy, 10)):
        for size in sizes:
            nodes, queue = machines(size), tasks(tasks_each // share, 40)
            samples = []
            for _ in range(rounds):
                begun = time.perf_counter()
                samples.append(scan(nodes, queue) / (time.perf_counter() - begun))
            found.append(Figure(f"{name}, {size} nodes", samples, "/s"))
    return found


def memory(more_tasks: int, more_nodes: int) -> list[Figure]:
    found = []
    for title, few, many, step in (
        (
            "memory per task",
            lambda: Snapshot(machines(10), tasks(10, 5)),
            lambda: Snapshot(machines(10), tasks(10 + more_tasks, 5)),
            more_tasks,
        ),
        (
            "memory per node",
            lambda: Snapshot(machines(10), ()),
            lambda: Snapshot(machines(10 + more_nodes), ()),
            more_nodes,
        ),
    ):
        tracemalloc.start()
        sizes = []
        for make in (few, many):
            before = tracemalloc.get_traced_memory()[0]
            kept = make(), None
            kept = kept[0], decide(kept[0])
            sizes.append(tracemalloc.get_traced_memory()[0] - before)
            del kept
        tracemalloc.stop()
        found.append(Figure(f"{title}, view and plan", [(sizes[1] - sizes[0]) / step], "B"))
    return found


def main(options: argparse.Namespace) -> None:
    rounds, sizes, middle = options.rounds, options.nodes, sorted(options.nodes)[len(options.nodes) // 2]
    gc.freeze()  # as in the master-agent
    gc.set_threshold(50_000, 20, 50)
    figures = []
    for size in sizes:
        progress(f"{size} nodes")
        nodes = machines(size)
        figures.append(Figure(f"40 kinds of task, {size} nodes", rate(nodes, tasks(options.tasks, 40), rounds), "/s"))
    for size in sizes:
        queue = tasks(options.tasks // 5, options.tasks // 5)
        figures.append(Figure(f"each task its own kind, {size}", rate(machines(size), queue, rounds), "/s"))
    nodes = machines(middle)
    one = tasks(1, 1)
    figures.append(
        Figure(f"one task, {middle} nodes", milliseconds(lambda: decide(Snapshot(nodes, one)), rounds * 10), "ms")
    )
    alone = machines(1)
    figures.append(Figure("one task, 1 node", milliseconds(lambda: decide(Snapshot(alone, one)), rounds * 10), "ms"))
    figures.append(
        Figure("one task, 1 node, after a rest", rested(lambda: decide(Snapshot(alone, one)), rounds * 4), "ms")
    )
    for title, limits in (
        (f"{options.waiting:,} wait, no limits", False),
        (f"{options.waiting:,} wait, time limits", True),
    ):
        progress(title)
        queue = tasks(options.waiting, 40)
        nodes, held = full(middle, limits)
        view = Snapshot(nodes, queue, held)
        first = milliseconds(lambda view=view: decide(view), 1)
        figures.append(Figure(f"{title}: new", first, "ms"))  # each job's kind is told once
        figures.append(Figure(title, milliseconds(lambda view=view: decide(view), rounds), "ms"))
        spent = milliseconds(lambda view=view: decide(view), rounds, time.process_time)
        figures.append(Figure(f"{title}: CPU", spent, "ms"))
    wide = options.waiting // 20
    arrays = [QueuedJob(f"array{n}", "ann", n, (Demand("worker", wide, s),)) for n, s in enumerate(shapes(20))]
    view = Snapshot(nodes, arrays, held)
    figures.append(Figure("the same as 20 arrays", milliseconds(lambda: decide(view), rounds), "ms"))
    progress("scans")
    figures += compared(sizes, options.tasks, rounds) + memory(options.tasks, options.tasks // 10)
    bar = "20,000 placements/s at 1,000 nodes, cost per task flat from 200 to 5,000; 100,000 waiting in 50 ms"
    report(options, "planner: decide() on one core", figures, bar)


if __name__ == "__main__":
    parser = arguments(__doc__, 5)
    parser.add_argument("--nodes", type=int, nargs="+", default=[200, 1000, 5000])
    parser.add_argument("--tasks", type=int, default=10_000, help="to be placed (default: %(default)s)")
    parser.add_argument("--waiting", type=int, default=100_000, help="of which none fits (default: %(default)s)")
    main(parser.parse_args())
