"""What a node with a wrong clock reports gets times of the master's clock."""

from __future__ import annotations

from grass.wire.task_events import Ended, Ready, Started
from master.agent.node_time import on_master_clock

KEY = "j-1/a.0/1"
EVENTS = (Ended(key=KEY, at=5000.0, started=4990.0), Ready(KEY), Ended(key=KEY, at=3.0), Started(KEY, 7.0, 1, 6.0))


def test_times_of_a_node_whose_clock_is_off_are_those_of_the_master() -> None:
    assert on_master_clock(EVENTS, 3600.0) == (
        Ended(key=KEY, at=1400.0, started=1390.0),
        Ready(KEY),
        Ended(key=KEY, at=-3597.0),
        Started(KEY, -3593.0, 1, -3594.0),
    )
    assert on_master_clock(EVENTS, -3600.0)[0] == Ended(key=KEY, at=8600.0, started=8590.0)


def test_what_clocks_differ_by_anyway_is_left_alone() -> None:
    assert on_master_clock(EVENTS, 29.0) is EVENTS
