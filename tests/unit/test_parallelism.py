from __future__ import annotations

from node.runtime.lanes import Lanes


def test_without_a_width_everything_may_start() -> None:
    lanes = Lanes()
    assert [lanes.add("a", key) for key in "123"] == [["1"], ["2"], ["3"]]


def test_who_leaves_lets_the_next_in_in_order() -> None:
    lanes = Lanes()
    lanes.widen("a", 1)
    assert [lanes.add("a", key) for key in "123"] == [["1"], [], []]
    assert lanes.add("b", "x") == ["x"]
    assert lanes.leave("a", "1") == ["2"]
    assert lanes.waiting() == ["3"]


def test_who_leaves_while_waiting_frees_nothing_and_is_passed_over() -> None:
    lanes = Lanes()
    lanes.widen("a", 1)
    for key in "123":
        lanes.add("a", key)
    assert lanes.leave("a", "2") == []
    assert lanes.leave("a", "1") == ["3"]
    assert lanes.leave("a", "1") == lanes.leave("b", "1") == []


def test_a_new_width_lets_more_in_and_a_smaller_one_waits_for_ends() -> None:
    lanes = Lanes()
    lanes.widen("a", 1)
    for key in "1234":
        lanes.add("a", key)
    assert lanes.widen("a", 3) == ["2", "3"]
    assert lanes.widen("a", 1) == []
    assert lanes.leave("a", "1") == lanes.leave("a", "2") == []
    assert lanes.leave("a", "3") == ["4"]


def test_what_ran_before_counts() -> None:
    lanes = Lanes()
    lanes.enter("a", "old")
    lanes.widen("a", 1)
    assert lanes.add("a", "new") == []
    assert lanes.leave("a", "old") == ["new"]


def test_a_lane_is_dropped_only_when_it_is_empty() -> None:
    lanes = Lanes()
    lanes.widen("a", 1)
    lanes.add("a", "1")
    lanes.drop("a")
    assert lanes.add("a", "2") == []
    lanes.leave("a", "1")
    lanes.leave("a", "2")
    lanes.drop("a")
    assert [lanes.add("a", key) for key in "34"] == [["3"], ["4"]]
