"""500 elastic and rigid jobs on a fake clock: the rules of `autoscale`, beside jobs that never grow and that always do.

    nice .venv/bin/python tests/bench/autoscale.py [--machines 64] [--jobs 500] [--loads 0.6 0.8 0.95] [--rounds 5]

One task takes a machine. Half of the jobs are elastic (`min` 1 or 2, `max` four to eight times as much), the others
rigid gangs. A fifth have a higher priority. An elastic job has an amount of work, and gains by more tasks in one of
three ways: nearly linearly, by Amdahl with a serial part of a tenth, or nothing beyond twice its `min`. A change of its
size costs it a minute without progress, as a restart from a checkpoint does. The queue is served by priority, then
first come first served. Nothing is preempted, and the ends of jobs are not known before.

`never`: elastic jobs keep `min`. `always`: a job grows by a unit each time that a machine is idle and nothing waits.
It has no cooldown, measures no gain, and gives nothing back. `rules`: `master.autoscale.rules.decide`, every 30 s, with
the defaults of `autoscale`; jobs report steps.

Machine use counts machines with a task until the last job has arrived; useful is what of that advanced jobs as a first
task would. Waiting is from submission to start, of all jobs and of those of higher priority. Restarts: changes of size.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from grass.model.autoscale import Autoscale
from grass.model.resources import Resources
from grass.wire.operation_record import GRASS, OperationKind, OperationRecord, OperationState, Outcome, ScaleRule
from master.autoscale.rates import Point
from master.autoscale.rules import Act, Idle, Key, Subject, decide
from master.autoscale.waiting import Waiter
from tests.bench.figures import Figure, arguments, machine, progress, quantile, report

GRID = 30.0
RESTART = 60.0
ONE = Resources(1000)
POLICIES = ("never", "always", "rules")


@dataclass
class Job:
    """``work``: seconds of one task. ``serial``: the part of Amdahl; ``knee``: tasks beyond which nothing is gained."""

    number: int
    at: float
    priority: int
    least: int
    most: int
    work: float
    serial: float
    knee: int
    size: int = 0
    started: float = -1.0
    done: float = 0.0
    paused: float = 0.0
    operations: list[OperationRecord] = field(default_factory=list)
    reports: list[Point] = field(default_factory=list)
    seen: float = 0.0
    """Since when one more machine has been idle for it."""

    @property
    def elastic(self) -> bool:
        return self.most > self.least

    def speed(self) -> float:
        tasks = min(self.size, self.knee)
        return tasks / (1 + self.serial * (tasks - 1))


def drawn(machines: int, jobs: int, load: float, seed: int) -> list[Job]:
    chance, found = random.Random(seed), list[Job]()
    for number in range(jobs):
        elastic, least = chance.random() < 0.5, 2 ** chance.choice((0, 0, 1) if chance.random() < 0.5 else (0, 1, 2, 3))
        least = min(least, 2) if elastic else least
        seconds = min(86_400.0, chance.lognormvariate(7.9, 1.2))
        serial, knee = chance.choice(((0.01, 99), (0.1, 99), (0.0, 2 * least)))
        most = least * chance.choice((4, 8)) if elastic else least
        job = Job(number, 0.0, 10 if chance.random() < 0.2 else 0, least, most, 0.0, serial, knee, size=least)
        job.work = seconds * job.speed()
        found.append(job)
    total = sum(job.work / job.speed() * job.least for job in found)
    at = 0.0
    for job in found:
        at += chance.expovariate(jobs * machines * load / total)
        job.at = at
    return found


class Cluster:
    """Machines and jobs, one step of ``GRID`` seconds after the other."""

    def __init__(self, machines: int, jobs: list[Job], policy: str) -> None:
        self.machines, self.policy = machines, policy
        self.coming = [replace(job, operations=[], reports=[]) for job in jobs]
        self.queue: list[Job] = []
        self.running: list[Job] = []
        self.ended: list[Job] = []
        self.now = self.busy = self.useful = self.restarts = self.undone = 0.0
        self.last = self.coming[-1].at

    @property
    def free(self) -> int:
        return self.machines - sum(job.size for job in self.running)

    def run(self) -> None:
        while self.coming or self.queue or self.running:
            self.now += GRID
            self._advance()
            while self.coming and self.coming[0].at <= self.now:
                self.queue.append(self.coming.pop(0))
            self.queue.sort(key=lambda job: (-job.priority, job.at))
            self._start()
            if self.policy == "always":
                self._grow_always()
            elif self.policy == "rules":
                self._decide()

    def _advance(self) -> None:
        for job in list(self.running):
            worked = max(0.0, GRID - job.paused)
            job.paused = max(0.0, job.paused - GRID)
            before, job.done = job.done, min(job.work, job.done + worked * job.speed())
            job.reports.append(Point(self.now, job.done / 10))
            if self.now <= self.last:
                self.busy += job.size * GRID
                self.useful += job.done - before
            if job.done >= job.work:
                self.running.remove(job)
                self.ended.append(job)

    def _start(self) -> None:
        while self.queue and self.queue[0].least <= self.free:
            job = self.queue.pop(0)
            job.started, job.size = self.now, job.least
            self.running.append(job)

    def _scale(self, job: Job, size: int, rule: ScaleRule, name: str = "", why: str = "") -> None:
        number = len(job.operations) + 1
        about = {"id": name or f"{number:08x}", "job_id": str(job.number), "component": "w", "author": GRASS}
        job.operations.append(
            OperationRecord(
                **about,
                kind=OperationKind.SCALE,
                state=OperationState.ENDED,
                outcome=Outcome.DONE,
                from_size=job.size,
                to_size=size,
                rule=rule,
                reason=why,
                filed=self.now,
                ended=self.now,
                number=number,
            )
        )
        job.size, job.paused = size, RESTART
        self.restarts += 1
        self.undone += rule is ScaleRule.UNDO

    def _grow_always(self) -> None:
        for job in sorted((each for each in self.running if each.elastic), key=lambda each: each.size / each.least):
            if not self.queue and job.size + job.least <= job.most and job.least <= self.free:
                self._scale(job, job.size + job.least, ScaleRule.GROW)

    def _decide(self) -> None:
        elastic = {Key(str(job.number), "w"): job for job in self.running if job.elastic}
        idle: dict[Key, Idle] = {}
        for key, job in elastic.items():
            fits = job.least <= self.free and not self.queue
            job.seen = (job.seen or self.now) if fits else 0.0
            idle[key] = Idle(fits, since=job.seen)
        waiters, free = list[Waiter](), self.free
        for job in self.queue:
            lacks, free = max(0, job.least - free), max(0, free - job.least)
            waiters.append(Waiter(str(job.number), str(job.number), "w", job.priority, "ann", {"cpu": 1000 * lacks}))
        subjects = [
            Subject(
                *(key.job_id, key.job_id, "w", Autoscale(), job.size, job.least, job.most, job.least, ONE, job.started),
                priority=job.priority,
                filed=len(job.operations),
                operations=job.operations,
                reports={"w.0": job.reports},
            )
            for key, job in elastic.items()
        ]
        for decision in decide(subjects, waiters, idle, self.now):
            if decision.act is Act.SCALE and decision.rule is not None:
                job = elastic[decision.subject.key]
                self._scale(job, decision.size, decision.rule, decision.id, decision.why)
        self._start()


def main() -> None:
    parser = arguments(__doc__, 5)
    parser.add_argument("--machines", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--loads", type=float, nargs="+", default=[0.6, 0.8, 0.95])
    options = parser.parse_args()
    progress(f"{machine()}; {options.jobs} jobs on {options.machines} machines, median of {options.rounds} traces")
    head = (
        f"{'use %':>6} {'useful %':>9} {'wait, mean':>11} {'p95':>7} {'urgent p95':>11} {'restarts':>9} {'undone':>7}"
    )
    progress(f"{'load':>5} {'policy':<7} {head} {'mean run':>9}")
    found: list[Figure] = []
    for load in options.loads:
        for policy in POLICIES:
            rows = [_measured(options.machines, options.jobs, load, policy, seed) for seed in range(options.rounds)]
            use, useful, mean, late, urgent, restarts, undone, took = (
                quantile(list(column), 0.5) for column in zip(*rows, strict=True)
            )
            waits = f"{mean:>9.0f} s {late:>5.0f} s {urgent:>9.0f} s"
            changes = f"{restarts:>9.0f} {undone:>7.0f}"
            progress(f"{load:>5} {policy:<7} {use:>6.1f} {useful:>9.1f} {waits} {changes} {took:>7.0f} s")
            columns = [list(column) for column in zip(*rows, strict=True)]
            found += [
                Figure(f"{policy}, load {load:g}: {what}", columns[at], unit)
                for at, what, unit in ((0, "use", "%"), (2, "mean wait", "s"), (4, "urgent p95", "s"))
            ]
    report(options, f"{options.jobs} jobs on {options.machines} machines", found, "urgent p95 below never's")


def _measured(machines: int, jobs: int, load: float, policy: str, seed: int) -> tuple[float, ...]:
    cluster = Cluster(machines, drawn(machines, jobs, load, seed), policy)
    cluster.run()
    waits = [job.started - job.at for job in cluster.ended]
    urgent = [job.started - job.at for job in cluster.ended if job.priority]
    whole = machines * cluster.last / 100
    took = sum(job.reports[-1].at - job.at for job in cluster.ended) / len(cluster.ended)
    return (
        *(cluster.busy / whole, cluster.useful / whole, sum(waits) / len(waits), quantile(waits, 0.95)),
        *(quantile(urgent, 0.95), cluster.restarts, cluster.undone, took),
    )


if __name__ == "__main__":
    main()
