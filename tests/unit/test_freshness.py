"""Requests without a session: no jump of a clock, and no restart, makes an old one new."""

from __future__ import annotations

import pytest

from master.api.freshness import AHEAD_SECONDS, STEP_SECONDS, Freshness


class Clock:
    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("age", "fresh"), [(0, True), (119, True), (121, False), (-AHEAD_SECONDS + 1, True), (-AHEAD_SECONDS - 1, False)]
)
def test_a_request_is_fresh_for_two_minutes_and_may_come_from_a_clock_that_is_a_little_ahead(
    age: float, fresh: bool
) -> None:
    assert Freshness(1000.0, 0.0, Clock()).is_fresh(1000.0 - age) is fresh


def test_the_time_is_steady_whatever_the_wall_clock_does() -> None:
    clock = Clock()
    freshness = Freshness(1000.0, 0.0, clock)
    clock.now += 600
    assert freshness.now() == 1600.0
    assert not freshness.is_fresh(1000.0)


def test_an_id_is_good_once() -> None:
    freshness = Freshness(1000.0, 0.0, Clock())
    assert freshness.first_sight("a") and not freshness.first_sight("a")


@pytest.mark.parametrize("wall", [1000.5, 1000.0 - 3600, 1000.0 + 3600])
def test_what_one_process_accepted_no_later_one_does(wall: float) -> None:
    """Restarted at once, after the clock was set back, and after it was set forward."""
    first = Freshness(1000.0, 0.0, Clock())
    kept = first.next_horizon()
    assert kept is not None
    latest = max(time / 10 for time in range(8000, 12000) if first.is_fresh(time / 10))
    second = Freshness(wall, kept, Clock())
    assert not second.is_fresh(latest)
    assert second.is_fresh(second.now())


def test_the_horizon_is_written_seldom_and_before_it_is_reached() -> None:
    clock = Clock()
    freshness = Freshness(1000.0, 0.0, clock)
    kept, writes = 0.0, 0
    for _ in range(1000):
        clock.now += 0.01
        horizon = freshness.next_horizon()
        if horizon is not None:
            kept, writes = horizon, writes + 1
        assert freshness.now() + AHEAD_SECONDS <= kept
    assert writes <= 10 / STEP_SECONDS + 1
