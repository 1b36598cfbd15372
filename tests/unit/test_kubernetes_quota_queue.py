"""Attempts that wait for a quota: who is tried, when, and how many requests that costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.runtime.kubernetes.quota_queue import QuotaQueue


class Namespace:
    """A namespace whose quota has room for some pods, and the time that passes there."""

    def __init__(self) -> None:
        self.now = 0.0
        self.room: dict[float, int] = {}
        """Time → how many pods find room from then on."""
        self.requests: list[tuple[float, str]] = []
        self.running: list[str] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self.queue = QuotaQueue(self._after, self.create)

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append((self.now + seconds, len(self._timers), call))

    def create(self, key: str) -> None:
        self.requests.append((self.now, key))
        if len(self.running) < sum(count for since, count in self.room.items() if since <= self.now):
            self.running.append(key)
            self.queue.admitted(key)
        else:
            self.queue.refused(key)

    def pass_until(self, end: float) -> None:
        while due := min((timer for timer in self._timers if timer[0] <= end), default=None):
            self._timers.remove(due)
            self.now = due[0]
            due[2]()
        self.now = end


@pytest.fixture
def namespace() -> Namespace:
    found = Namespace()
    for key in "abcd":
        found.create(key)
    return found


def test_room_that_comes_some_time_after_an_end_is_found_within_seconds(namespace: Namespace) -> None:
    namespace.pass_until(100)
    assert namespace.running == []
    namespace.queue.room()
    namespace.room[102.5] = 1
    namespace.pass_until(105)
    assert len(namespace.running) == 1


def test_room_for_all_is_filled_at_once_after_the_first_is_found(namespace: Namespace) -> None:
    namespace.room[0.5] = 4
    namespace.pass_until(2)
    assert sorted(namespace.running) == ["a", "b", "c", "d"]


def test_room_that_others_leave_is_found_within_a_minute(namespace: Namespace) -> None:
    namespace.pass_until(1000)
    namespace.room[1000.0] = 1
    namespace.pass_until(1061)
    assert len(namespace.running) == 1


def test_an_attempt_that_is_too_large_does_not_keep_the_others_waiting(namespace: Namespace) -> None:
    namespace.pass_until(300)
    assert {key for since, key in namespace.requests if since > 0} == {"a", "b", "c", "d"}


def test_waiting_costs_one_request_a_minute_however_many_wait() -> None:
    namespace = Namespace()
    for index in range(1000):
        namespace.create(f"t.{index}")
    namespace.pass_until(600)
    before = len(namespace.requests)
    namespace.pass_until(1200)
    assert 9 <= len(namespace.requests) - before <= 11
    for _ in range(20):  # pods that end without leaving room
        namespace.queue.room()
    namespace.pass_until(1210)
    assert len(namespace.requests) - before <= 11 + 5


def test_who_leaves_is_not_tried_and_holds_up_nobody(namespace: Namespace) -> None:
    for key in "abc":
        namespace.queue.leave(key)
    namespace.room[0.0] = 4
    namespace.pass_until(10)
    assert namespace.running == ["d"]


def test_an_attempt_whose_try_ended_otherwise_holds_up_nobody() -> None:
    timers: list[Callable[[], None]] = []
    tried: list[str] = []

    def begin(key: str) -> None:
        tried.append(key)
        queue.leave(key)

    queue = QuotaQueue(lambda _seconds, call: timers.append(call), begin)
    queue.refused("a")
    queue.refused("b")
    while timers:
        timers.pop(0)()
    assert tried == ["a", "b"]
