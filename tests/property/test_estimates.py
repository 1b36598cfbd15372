"""Reservations whose time comes from estimates: they are as good as the estimates, and wrong ones delay a job once."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from grass.model.resources import Resources
from master.agent.planner_cache import PlannerCache
from master.planning.decide import decide
from master.planning.model import Allocation, Demand, Node, QueuedJob, Shape, Snapshot
from tests.support import planner_oracle
from tests.support.examples import chosen
from tests.support.planner_worlds import random_view

WORLDS = 400


def test_with_estimates_alone_the_first_blocked_job_is_delayed_as_little_as_with_time_limits() -> None:
    judged = 0
    for seed in range(WORLDS):
        view = random_view(seed)
        limits = [each.ends for each in view.allocations] + [job.seconds for job in view.queue]
        if None in limits:
            continue
        plan = decide(
            replace(
                view,
                allocations=[replace(each, ends=None, expected=each.ends) for each in view.allocations],
                queue=[replace(job, seconds=None, expected=job.seconds) for job in view.queue],
            )
        )
        left = planner_oracle.everything_is_answered(view, plan)
        try:
            planner_oracle.order(view, plan, left)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        judged += any(starts is not None for starts in plan.estimated.values())
    assert judged > WORLDS / 20


@dataclass
class Run:
    """A job of one task each: what it takes, what Grass expects of it, and when it started."""

    id: str
    cpu: int
    seconds: float
    expected: float | None
    node: str = ""
    started: float = -1.0

    @property
    def ends(self) -> float:
        return self.started + self.seconds

    def queued(self, number: int) -> QueuedJob:
        return QueuedJob(self.id, "ann", number, (Demand("t", 1, Shape(Resources(self.cpu))),), expected=self.expected)

    def allocation(self) -> Allocation:
        expected = None if self.expected is None else self.started + self.expected
        return Allocation(self.id, "ann", "t", self.node, 1, Shape(Resources(self.cpu)), expected=expected)


@pytest.mark.parametrize("seed", range(chosen(48)))
def test_once_its_estimated_time_has_passed_no_other_task_takes_what_a_job_waits_for(seed: int) -> None:
    dice = random.Random(seed)
    sizes = {f"n{number}": 2000 for number in range(dice.randint(1, 4))}
    waiting = [_drawn(dice, number, max(sizes.values())) for number in range(120)]
    numbers = {run.id: number for number, run in enumerate(waiting)}
    running: list[Run] = []
    cache = PlannerCache()
    shortages: dict[str, int] = {}
    now = 0.0
    while waiting:
        running = [run for run in running if run.ends > now]
        free = {name: size - sum(run.cpu for run in running if run.node == name) for name, size in sizes.items()}
        arrived = waiting[:20]
        passed = [job for job, at in cache.starts.items() if at <= now]
        plan = decide(
            Snapshot(
                [Node(name, Resources(size), Resources(free[name])) for name, size in sizes.items()],
                [run.queued(numbers[run.id]) for run in arrived],
                [run.allocation() for run in running],
                now=now,
                late=passed,
            )
        )
        for placement in plan.placements:
            run = next(run for run in waiting if run.id == placement.job)
            run.node, run.started = placement.node, now
            free[run.node] -= run.cpu
            running.append(run)
            waiting.remove(run)
        first = next(iter(plan.estimated), None)
        if first in passed:
            cpu = next(run.cpu for run in waiting if run.id == first)
            shortage = min(cpu - free[name] for name, size in sizes.items() if size >= cpu)
            assert shortage <= shortages.get(first, shortage), f"{first} lacks more at {now} than before"
            shortages[first] = shortage
        placed = {placement.job for placement in plan.placements}
        cache.expect({job: at for job, at in plan.estimated.items() if job not in placed}, now)
        times = [run.ends for run in running] + [at for at in cache.starts.values() if at > now]
        now = min(times, default=now + 1.0)
    assert shortages


def _drawn(dice: random.Random, number: int, largest: int) -> Run:
    """Return a job. One of ten needs a whole node. Most estimates are much too short, so that they pass soon."""
    seconds = dice.uniform(5.0, 60.0)
    cpu = largest if dice.random() < 0.1 else dice.choice([500, 1000])
    expected = dice.choice([None, seconds / 10, seconds / 10, seconds / 10, seconds * 1.5])
    return Run(f"j{number:03}", cpu, seconds, expected)
