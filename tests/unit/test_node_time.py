"""What a node with a wrong clock tells gets times of the master's clock."""

from __future__ import annotations

from master.agent.node_time import timely

EVENTS = [{"event": "ended", "at": 5000.0, "started": 4990.0}, {"event": "ready"}, {"at": 3.0, "started": None}]


def test_times_of_a_node_whose_clock_is_off_are_those_of_the_master() -> None:
    assert timely(EVENTS, 3600.0) == [
        {"event": "ended", "at": 1400.0, "started": 1390.0},
        {"event": "ready"},
        {"at": -3597.0, "started": None},
    ]
    assert timely(EVENTS, -3600.0)[0]["at"] == 8600.0


def test_what_clocks_differ_by_anyway_is_left_alone() -> None:
    assert timely(EVENTS, 29.0) is EVENTS
