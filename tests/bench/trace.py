"""10,000 jobs of a shared machine-learning cluster, replayed on a fake clock: Grass, first come first served, and EASY.

    nice .venv/bin/python tests/bench/trace.py [--nodes 50 200 1000] [--jobs 10000] [--seeds 1 2 3]
        [--limits 1.0] [--estimates 0.5]

The jobs are drawn, not copied, in the manner of what was published about three clusters: Philly (Jeon et al., "Analysis
of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019), Helios (Hu et al., "Characterization
and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC 2021) and Alibaba's PAI (Weng et al.,
"MLaaS in the Wild", NSDI 2022). The figures are chosen by us; they are not quotations:

- run times: log-normal with a median of 23 minutes and a 90th percentile of 4.5 hours; cut at one day;
- GPUs: most jobs take one, few take many, 2.4 in the mean. Above 8 it is a gang of whole nodes; a tenth shares one;
- users: of 100, the 5 busiest submit 77 % of the jobs.

Ours altogether: Poisson arrivals; cores and memory per GPU; time limits, of which users ask one to
three times the run time, rounded up to what people write. Everybody decides on the same grid of 30 s, knows the same
limits, and never the run times. Waiting is from submission to start; utilisation is of GPUs, from the first to the last
arrival, and (second figure) without the first fifth of that time, in which the cluster fills. All three do the same
work in the end, so what is left to tell them apart is how much of it was done while jobs still came. The third figure
is over all the time until the last job has ended: what comes after the last arrival (the drain) is decided by when the
longest jobs happened to start, and a cluster in use never comes to it. Fairness is Jain's index over users of
run time / (run time + waiting time), so 1 when all are slowed alike.
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from grass.model.resources import DEVICE, Resources
from master.agent.durations import FACTOR
from master.agent.planner_cache import PlannerCache
from master.planning.decide import decide
from master.planning.model import Allocation, Demand, Device, DeviceShares, Node, QueuedJob, Shape, Snapshot
from master.planning.ranking import length_of
from tests.bench.figures import machine, quantile

GRID = 30.0
GIB = 1 << 30
GPUS, CORES, MEMORY = 8, 96, 768
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
ROUND_LIMITS = (15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, DAY, 3 * DAY)
HALF_LIFE = DAY
WARMING = 0.2
LOADS = ((100, 1.1), (400, 1.4), (1_000_000, 6.0))
"""(nodes up to, offered load): the same 10,000 jobs come and go faster on more nodes, so that long ones run beyond the
last arrival and a higher load is needed to keep the cluster busy meanwhile."""


@dataclass
class Job:
    """``tasks`` equal tasks, all at once. ``gpu`` in thousandths, per task; ``limit``: None when its user gave none."""

    number: int
    user: str
    submitted: float
    seconds: float
    limit: float | None
    estimate: float | None
    tasks: int
    gpu: int
    cpu: int
    memory: int
    started: float = -1.0
    where: list[tuple[int, DeviceShares]] = field(default_factory=list)

    @property
    def gpus(self) -> float:
        return self.tasks * self.gpu / DEVICE


def drawn(count: int, nodes: int, load: float, known: float, seed: int, spread: float | None) -> list[Job]:
    """``load``: what the jobs ask for over what there is until the last arrives; ``known``: how many have a limit.

    ``spread``: standard deviation of the logarithm of how much a run differs from the median of earlier runs, from
    which its estimate comes; None: there are no estimates.
    """
    dice, past = random.Random(seed), random.Random(-seed)
    jobs = []
    for number in range(count):
        seconds = min(DAY, max(GRID, dice.lognormvariate(np.log(23 * MINUTE), 1.922)))
        wide = dice.choices([0.25, 0.5, 1, 2, 4, 8, 16, 32], [5, 5, 60, 11, 9, 7, 2, 1])[0]
        tasks = max(1, int(wide) // GPUS)
        gpu = int(wide / tasks * DEVICE)
        wanted = seconds * dice.uniform(1.0, 3.0)
        limit = ROUND_LIMITS[bisect_left(ROUND_LIMITS, wanted)] if dice.random() < known else None
        estimate = None
        if spread is not None and limit is None:
            estimate = length_of(FACTOR * seconds * past.lognormvariate(0.0, spread))
        user = f"user{dice.randrange(5)}" if dice.random() < 0.77 else f"user{dice.randrange(5, 100)}"
        cpu = int(dice.choice([2, 4, 8, 12]) * gpu)
        memory = dice.choice([16, 32, 64, 96]) * gpu // DEVICE
        jobs.append(Job(number, user, 0.0, seconds, limit, estimate, tasks, gpu, cpu, memory))
    asked = sum(job.seconds * job.gpus for job in jobs)
    pace = asked / (nodes * GPUS * load) / count
    now = 0.0
    for job in jobs:
        now += dice.expovariate(1 / pace)
        job.submitted = now
    return jobs


class Machines:
    """What the two baselines place by: first fit on nodes in their order."""

    def __init__(self, count: int) -> None:
        self.cpu = np.full(count, CORES * 1000, np.int64)
        self.memory = np.full(count, MEMORY, np.int64)
        self.gpu = np.full((count, GPUS), DEVICE, np.int64)

    def copy(self) -> Machines:
        other = Machines(0)
        other.cpu, other.memory, other.gpu = self.cpu.copy(), self.memory.copy(), self.gpu.copy()
        return other

    def place(self, job: Job) -> list[tuple[int, DeviceShares]] | None:
        """Books the whole job, or nothing."""
        if job.gpu < DEVICE:
            able = (self.gpu >= job.gpu).any(axis=1)
        else:
            able = (self.gpu == DEVICE).sum(axis=1) * DEVICE >= job.gpu
        able &= (self.cpu >= job.cpu) & (self.memory >= job.memory)
        chosen = np.flatnonzero(able)[: job.tasks].tolist()
        if len(chosen) < job.tasks:  # a task of a gang fills more than half of a node, so each node takes one
            return None
        where = []
        for node in chosen:
            row = self.gpu[node]
            if job.gpu < DEVICE:
                least = min((int(free), device) for device, free in enumerate(row) if free >= job.gpu)
                shares: DeviceShares = ((least[1], job.gpu),)
            else:
                shares = tuple((int(device), DEVICE) for device in np.flatnonzero(row == DEVICE)[: job.gpu // DEVICE])
            where.append((node, shares))
        self.move(job, where, -1)
        return where

    def move(self, job: Job, where: list[tuple[int, DeviceShares]], sign: int) -> None:
        for node, shares in where:
            self.cpu[node] += sign * job.cpu
            self.memory[node] += sign * job.memory
            for device, share in shares:
                self.gpu[node, device] += sign * share


class FirstCome:
    """Strictly in the order of submission."""

    def __init__(self, nodes: int) -> None:
        self.machines = Machines(nodes)
        self.running: dict[int, Job] = {}

    def ended(self, job: Job, now: float) -> None:
        del self.running[job.number]
        self.machines.move(job, job.where, 1)

    def start(self, queue: list[Job], now: float) -> list[Job]:
        started = []
        for job in queue:
            where = self.machines.place(job)
            if where is None:
                break
            job.where = where
            self.running[job.number] = replace(job, started=now)
            started.append(job)
        return started


class Easy(FirstCome):
    """And behind a blocked job whatever does not delay it: it is gone by then, or fits beside it then."""

    def start(self, queue: list[Job], now: float) -> list[Job]:
        started = super().start(queue, now)
        rest = queue[len(started) :]
        if not rest:
            return started
        head, shadow, then = rest[0], None, self.machines.copy()
        ends = sorted((j.started + j.limit, j.number) for j in self.running.values() if j.limit is not None)
        for end, number in ends:
            running = self.running[number]
            then.move(running, running.where, 1)
            if then.place(head) is not None:
                shadow = end
                break
        refused: set[tuple[int, int, int, int]] = set()
        for job in rest[1:]:
            shape = job.tasks, job.gpu, job.cpu, job.memory
            if shape in refused:
                continue
            where = self.machines.place(job)
            if where is None:
                refused.add(shape)
                continue
            gone = shadow is not None and job.limit is not None and now + job.limit <= shadow
            if not gone and (shadow is None or not _beside(then, job, where)):
                self.machines.move(job, where, 1)
                continue
            job.where = where
            self.running[job.number] = replace(job, started=now)
            started.append(job)
        return started


def _beside(then: Machines, job: Job, where: list[tuple[int, DeviceShares]]) -> bool:
    """Whether the job fits on just those nodes and devices beside the head; books it then."""
    for node, shares in where:
        if then.cpu[node] < job.cpu or then.memory[node] < job.memory:
            return False
        if any(then.gpu[node, device] < share for device, share in shares):
            return False
    then.move(job, where, -1)
    return True


class Grass:
    """``decide``, given what a master-agent knows."""

    def __init__(self, nodes: int) -> None:
        total = Resources(CORES * 1000, MEMORY * GIB, GPUS * DEVICE)
        devices = tuple(Device(each) for each in range(GPUS))
        self.nodes = [Node(f"n{number:04}", total, total, devices) for number in range(nodes)]
        self.places = {node.name: place for place, node in enumerate(self.nodes)}
        self.held: dict[int, list[Allocation]] = {}
        self.rates: defaultdict[str, int] = defaultdict(int)  # thousandths of GPUs that each user holds
        self.shapes: dict[tuple[int, int, int], Shape] = {}
        self.queued: dict[int, QueuedJob] = {}
        self.usage: defaultdict[str, float] = defaultdict(float)
        self.promised: dict[str, int] = {}
        self.cache = PlannerCache()
        self.then = 0.0
        self.spent: list[float] = []

    def ended(self, job: Job, now: float) -> None:
        self._decay(now)
        for held in self.held.pop(job.number):
            self._move(held, 1)

    def start(self, queue: list[Job], now: float) -> list[Job]:
        self._decay(now)
        waiting = {f"j{job.number:05}": job for job in queue}
        held = []
        for mine in self.held.values():
            held += mine
        view = Snapshot(
            self.nodes, [self._queued(job) for job in queue], held, self.usage, now=now, late=self._late(now)
        )
        begun = time.perf_counter()
        plan = decide(view)
        self.spent.append(time.perf_counter() - begun)
        self._promise(plan.reserved, waiting)
        placed = {placement.job for placement in plan.placements}
        self.cache.expect({job: at for job, at in plan.estimated.items() if job not in placed}, now)
        started = []
        for placement in plan.placements:
            job = waiting[placement.job]
            shape = self._shape(job)
            ends = None if job.limit is None else now + job.limit
            expected = None if job.estimate is None else now + job.estimate
            devices = placement.devices
            mine = Allocation(placement.job, job.user, "t", placement.node, placement.count, shape, devices, ends=ends)
            mine = replace(mine, expected=expected)
            if job.number not in self.held:
                started.append(job)
                self.held[job.number] = []
            self.held[job.number].append(mine)
            self._move(mine, -1)
        return started

    def _promise(self, kept: Sequence[str], waiting: dict[str, Job]) -> None:
        before, self.promised = self.promised, {}
        for at, job in enumerate(kept, 1 + max(before.values(), default=0)):
            self.promised[job] = before.get(job, at)
        for job in before.keys() ^ self.promised.keys():
            if job in waiting:
                number = waiting[job].number
                self.queued[number] = replace(self.queued[number], reservation_rank=self.promised.get(job))

    def _late(self, now: float) -> list[str]:
        return [job for job, at in self.cache.starts.items() if at <= now]

    def _queued(self, job: Job) -> QueuedJob:
        if job.number not in self.queued:
            demand = Demand("t", job.tasks, self._shape(job), gang=job.tasks > 1)
            self.queued[job.number] = QueuedJob(
                *(f"j{job.number:05}", job.user, job.number, (demand,)), seconds=job.limit, expected=job.estimate
            )
        return self.queued[job.number]

    def _shape(self, job: Job) -> Shape:
        key = job.cpu, job.memory, job.gpu
        return self.shapes.setdefault(key, Shape(Resources(job.cpu, job.memory * GIB, job.gpu)))

    def _move(self, held: Allocation, sign: int) -> None:
        self.rates[held.user] -= sign * held.shape.resources.gpu * held.count
        place = self.places[held.node]
        node = self.nodes[place]
        free = {device.id: device.free for device in node.devices}
        for shares in held.devices:
            for device, share in shares:
                free[device] += sign * share
        devices = tuple(replace(device, free=free[device.id]) for device in node.devices)
        self.nodes[place] = replace(node, free=node.free + held.shape.resources * (sign * held.count), devices=devices)

    def _decay(self, now: float) -> None:
        """Use of GPUs decays by half each day."""
        passed, self.then = now - self.then, now
        if passed:
            faded = 0.5 ** (passed / HALF_LIFE)
            for user in self.usage:
                self.usage[user] *= faded
            for user, rate in self.rates.items():
                self.usage[user] += rate * passed


@dataclass(frozen=True)
class Outcome:
    utilisation: float
    mean: float
    late: float
    jain: float
    warm: float
    whole: float


def replayed(
    jobs: list[Job], nodes: int, make: Callable[[int], FirstCome | Grass]
) -> tuple[Outcome, FirstCome | Grass]:
    scheduler = make(nodes)
    jobs = [replace(job, where=[]) for job in jobs]
    arrivals = jobs[::-1]
    queue: list[Job] = []
    ends: list[tuple[float, int, Job]] = []
    started: dict[int, float] = {}
    now = 0.0
    while arrivals or ends or queue:
        now = _next(arrivals, ends, now)
        while arrivals and arrivals[-1].submitted <= now:
            queue.append(arrivals.pop())
        while ends and ends[0][0] <= now:
            scheduler.ended(heapq.heappop(ends)[2], now)
        if not queue:
            continue
        new = scheduler.start(queue, now)
        for job in new:
            assert job.number not in started
            started[job.number] = now
            heapq.heappush(ends, (now + job.seconds, job.number, job))
        if new:
            gone = {job.number for job in new}
            queue = [job for job in queue if job.number not in gone]
    return _outcome(jobs, nodes, started), scheduler


def _next(arrivals: list[Job], ends: list[tuple[float, int, Job]], now: float) -> float:
    """The first point of the grid at or after the next event."""
    times = [arrivals[-1].submitted] if arrivals else []
    times += [ends[0][0]] if ends else []
    return max(now + GRID, -(-min(times) // GRID) * GRID)


def _outcome(jobs: list[Job], nodes: int, started: dict[int, float]) -> Outcome:
    last = jobs[-1].submitted
    warm = last * WARMING
    used = warm_used = 0.0
    waits: list[float] = []
    users: defaultdict[str, list[float]] = defaultdict(list)
    end = max(started[job.number] + job.seconds for job in jobs)
    work = sum(job.gpus * job.seconds for job in jobs)
    for job in jobs:
        begun = started[job.number]
        used += job.gpus * max(0.0, min(last, begun + job.seconds) - min(last, begun))
        warm_used += job.gpus * max(0.0, min(last, begun + job.seconds) - max(warm, begun))
        waits.append(begun - job.submitted)
        users[job.user].append(job.seconds / (job.seconds + waits[-1]))
    speeds = [sum(each) / len(each) for each in users.values()]
    jain = sum(speeds) ** 2 / (len(speeds) * sum(speed**2 for speed in speeds))
    whole = nodes * GPUS
    return Outcome(
        used / (whole * last),
        sum(waits) / len(waits),
        quantile(waits, 0.95),
        jain,
        warm_used / (whole * (last - warm)),
        work / (whole * end),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--load", type=float, help="offered load (default: what keeps that many nodes busy)")
    parser.add_argument("--limits", type=float, default=1.0, help="how many of the jobs have a limit (default: all)")
    parser.add_argument(
        "--estimates", type=float, help="jobs without a limit have estimates; the logarithms of run times vary by this"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    print(f"[{machine()}] {options.jobs} jobs, seeds {options.seeds}, {options.limits:.0%} have a time limit")
    for nodes in options.nodes:
        load = options.load or next(load for most, load in LOADS if nodes <= most)
        print(
            f"{nodes} nodes, {nodes * GPUS} GPUs, offered load {load}: median (least … most) of the seeds", flush=True
        )
        traces = [drawn(options.jobs, nodes, load, options.limits, seed, options.estimates) for seed in options.seeds]
        for name, make in (("first come", FirstCome), ("EASY", Easy), ("Grass", Grass)):
            _report(name, [replayed(jobs, nodes, make) for jobs in traces])


def _report(name: str, runs: list[tuple[Outcome, FirstCome | Grass]]) -> None:
    found = [outcome for outcome, _ in runs]
    used, warm = _spread([100 * each.utilisation for each in found]), _spread([100 * each.warm for each in found])
    over_all = _spread([100 * each.whole for each in found])
    mean, late = _spread([each.mean / MINUTE for each in found]), _spread([each.late / MINUTE for each in found])
    spent = sorted(one for _, scheduler in runs if isinstance(scheduler, Grass) for one in scheduler.spent)
    cost = f"  {1000 * quantile(spent, 0.5):.1f} ms a decision" if spent else ""
    jain = min(each.jain for each in found)
    print(
        f"  {name:<11} used {used} %, warm {warm} %, to the end {over_all} %  waiting {mean} min, p95 {late} min"
        f"  Jain {jain:.3f}{cost}",
        flush=True,
    )


def _spread(samples: list[float]) -> str:
    return f"{quantile(samples, 0.5):.1f} ({min(samples):.1f} … {max(samples):.1f})"


if __name__ == "__main__":
    main()
