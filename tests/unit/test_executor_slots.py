"""How many calls of an executor run at once, over all its jobs."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from grass.api.executor_slots import Slots


def futures(count: int) -> list[Future[Any]]:
    return [Future() for _ in range(count)]


def test_a_job_has_slots_until_fewer_of_its_calls_are_left() -> None:
    slots, first, second = Slots(4), futures(3), futures(9)
    assert slots.wait() == 4
    slots.take(4, first)
    assert slots.wait() == 1
    slots.take(1, second)
    for future in first[:2]:
        future.set_result(None)
    assert slots.wait() == 2
    first[2].set_exception(ValueError())
    for future in second:
        future.set_result(None)
    assert slots.wait() == 4


def test_who_waits_for_a_slot_goes_on_with_the_end_of_a_call_and_with_the_end_of_the_executor() -> None:
    slots, [future] = Slots(1), futures(1)
    slots.take(1, [future])
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(slots.wait()))
    waiting.start()
    future.set_result(None)
    waiting.join(10)
    assert found == [1]
    slots.take(1, futures(1))
    waiting = threading.Thread(target=lambda: found.append(slots.wait()))
    waiting.start()
    slots.close()
    waiting.join(10)
    assert found == [1, 0]


def test_a_call_that_has_ended_before_it_is_counted_takes_no_slot() -> None:
    slots, [done] = Slots(1), futures(1)
    done.set_result(None)
    slots.take(1, [done])
    assert slots.wait() == 1
