"""Random clusters against a naive oracle. `pytest tests/property --long` judges 100,000 of them."""

from __future__ import annotations

import pytest

from tests.property.planner_long import judge_seed
from tests.support.planner_worlds import random_view


@pytest.mark.timeout(3600)
def test_plans_of_random_clusters_are_right(request: pytest.FixtureRequest) -> None:
    for seed in range(100_000 if request.config.getoption("--long") else 2_500):
        judge_seed(seed)


def test_random_clusters_hold_what_the_planner_decides_about() -> None:
    views = [random_view(seed) for seed in range(300)]
    assert any(view.allocations for view in views) and any(view.quotas for view in views)
    assert any(held.preemptible and held.gang for view in views for held in view.allocations)
    demands = [demand for view in views for job in view.queue for demand in job.demands]
    assert any(d.gang for d in demands) and any(d.pack for d in demands) and any(d.spread for d in demands)
