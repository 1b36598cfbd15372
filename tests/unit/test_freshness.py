"""Requests without a session: no jump of a clock, and no restart, makes an old one new."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from grass.errors import UnreachableError
from master.api.freshness import AHEAD_SECONDS, STEP_SECONDS, Freshness


def horizon_of(freshness: Freshness) -> float:
    written: list[float] = []
    freshness.move_horizon(written.append)
    return written[0]


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
    kept = horizon_of(first)
    latest = max(time / 10 for time in range(8000, 12000) if first.is_fresh(time / 10))
    second = Freshness(wall, kept, Clock())
    assert not second.is_fresh(latest)
    assert second.is_fresh(second.now())


def test_the_horizon_is_written_seldom_and_before_it_is_reached() -> None:
    clock = Clock()
    freshness = Freshness(1000.0, 0.0, clock)
    written: list[float] = []
    for _ in range(1000):
        clock.now += 0.01
        freshness.move_horizon(written.append)
        assert freshness.now() + AHEAD_SECONDS <= written[-1]
    assert len(written) <= 10 / STEP_SECONDS + 1


def test_no_request_is_accepted_on_a_horizon_that_could_not_be_written() -> None:
    def refuse(_: float) -> None:
        raise UnreachableError("redis does not answer")

    freshness = Freshness(1000.0, 0.0, Clock())
    for _ in range(2):
        with pytest.raises(UnreachableError):
            freshness.move_horizon(refuse)
    assert horizon_of(freshness) >= freshness.now() + AHEAD_SECONDS


def test_no_request_is_accepted_while_another_still_writes_the_horizon() -> None:
    freshness = Freshness(1000.0, 0.0, Clock())
    writing, written = threading.Event(), threading.Event()
    done: list[str] = []

    def slowly(_: float) -> None:
        writing.set()
        assert written.wait(20)
        done.append("written")

    def second() -> None:
        assert writing.wait(20)
        freshness.move_horizon(lambda _: None)
        done.append("accepted")

    with ThreadPoolExecutor(2) as pool:
        first, other = pool.submit(freshness.move_horizon, slowly), pool.submit(second)
        assert writing.wait(20)
        assert not wait([other], 0.2).done
        written.set()
        first.result(20)
        other.result(20)
    assert done == ["written", "accepted"]
