"""Random clusters against a naive oracle. `pytest tests/property --long` judges 100,000 of them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from grass.model.job import NODE_LEVEL
from grass.model.resources import Resources
from master.planning.decide import decide
from master.planning.model import Allocation, Demand, Node, QueuedJob, Shape, Snapshot
from tests.property.planner_long import judge_seed
from tests.support.planner_worlds import random_view

PARTS = 16
"""So that a run of mutations (``scripts/mutate``), which has not the time for all of them, tries some."""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_plans_of_random_clusters_are_right(part: int, request: pytest.FixtureRequest) -> None:
    for seed in range(part, 100_000 if request.config.getoption("--long") else 800, PARTS):
        judge_seed(seed)


def test_random_clusters_hold_what_the_planner_decides_about() -> None:
    views = [random_view(seed) for seed in range(300)]
    assert any(view.allocations for view in views) and any(view.quotas for view in views)
    assert any(held.preemptible and held.gang for view in views for held in view.allocations)
    demands = [demand for view in views for job in view.queue for demand in job.demands]
    assert any(d.gang for d in demands) and any(d.pack for d in demands) and any(d.spread for d in demands)


def test_tasks_beyond_the_least_number_are_spread_and_packed_with_those_that_start_together() -> None:
    for seed in range(300):
        dice = random.Random(seed)
        racks = [(f"r{number % 2}",) for number in range(dice.randint(2, 5))]
        shape = Shape(Resources(1000))
        held = [Allocation("j1", "ann", "w", "n0", 1, shape)] if dice.random() < 0.3 else []
        free = [dice.randint(1, 4) for _ in racks]
        nodes = [
            Node(f"n{at}", Resources(5000), Resources(1000 * free[at]), path=path) for at, path in enumerate(racks)
        ]
        first, more = dice.randint(1, 3), dice.randint(1, 4)
        how: dict[str, Any] = dice.choice([{"spread": NODE_LEVEL}, {"spread": 1}, {"pack": 1}])
        demands = (Demand("w", first, shape, gang=True, **how), Demand("w", more, shape, **how))
        plan = decide(Snapshot(nodes, [QueuedJob("j1", "ann", 1, demands, begun=bool(held))], held))
        new = Counter({each: 0 for each in range(len(nodes))})
        for placement in plan.placements:
            new[int(placement.node[1:])] += placement.count
        if "pack" in how:
            assert len({racks[at] for at in new if new[at] or (held and at == 0)}) <= 1, (seed, new)
            rooms = [sum(free[at] for at in new if racks[at] == rack) for rack in set(racks)]
            assert held or sum(new.values()) == min(first + more, max(rooms)) or max(rooms) < first, (seed, new)
            continue
        level: list[Any] = [*new] if how["spread"] == NODE_LEVEL else racks
        domains = Counter({each: 0 for each in level})
        for at in new:
            domains[level[at]] += new[at] + bool(held and at == 0)
        open_ = [domains[level[at]] for at in new if new[at] < free[at]]
        grown = [domains[level[at]] for at in new if new[at]]
        assert max(grown, default=0) <= min(open_, default=99) + 1, (seed, new)
