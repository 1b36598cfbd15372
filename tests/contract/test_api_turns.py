"""Many calls of one user: others are answered, and no call is lost. Real HTTP against a real server."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grass.errors import TooManyCallsError
from master.api.turns import Turns, WaitingSlots
from tests.support.api_world import api_world
from tests.support.waiting import wait_until

JOB = {"name": "j", "components": {"w": {"command": "true"}}}


def test_a_user_with_all_turns_is_told_so_and_waits_while_others_are_answered(tmp_path: Path) -> None:
    with api_world(tmp_path, answered_of_user=1, preview=60.0) as world, ThreadPoolExecutor(1) as pool:
        long: Future[Any] = pool.submit(world.client(timeout=60.0).plan, JOB)
        wait_until(lambda: world.backend.newest(world.keys.tickets) is not None)
        with pytest.raises(TooManyCallsError, match="user ann: 1 calls are being answered"):
            world.client(timeout=0.1).execute("j", "w.0", ["true"])  # whose tries each have seconds for an answer
        assert world.client("bob").jobs() == []
        world.answer_plan()
        assert long.result(60).reason is None
        assert world.client().start({**JOB, "name": "k"}).name == "k"


def test_calls_that_are_too_many_are_repeated_by_the_client_until_each_is_answered(tmp_path: Path) -> None:
    with api_world(tmp_path, answered_of_user=1) as world, ThreadPoolExecutor(8) as pool:
        clients = [world.client(timeout=60.0) for _ in range(8)]
        started = pool.map(lambda each: each[1].start({**JOB, "name": f"j{each[0]}"}), enumerate(clients))
        assert {each.name for each in started} == {f"j{number}" for number in range(8)}
        assert len(world.client("root").jobs()) == 8


def test_a_waiting_request_gives_its_turn_back_while_it_waits() -> None:
    turns = Turns(1)
    with turns.turn("ann"):
        with turns.left("ann"), turns.turn("ann"):
            pass
        with pytest.raises(TooManyCallsError), turns.turn("ann"):
            pass
        with turns.turn("bob"):
            pass


def test_the_slots_for_waiting_are_limited_together_and_for_each_user() -> None:
    slots = WaitingSlots(3, 2)
    with slots.slot("ann") as first, slots.slot("ann") as second, slots.slot("ann") as third:
        assert (first, second, third, slots.taken) == (True, True, False, 2)
        with slots.slot("bob") as fourth, slots.slot("eve") as fifth:
            assert (fourth, fifth, slots.taken) == (True, False, 3)
    assert slots.taken == 0
