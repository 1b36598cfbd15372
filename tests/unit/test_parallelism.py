from __future__ import annotations

from node.runtime.parallelism import ParallelismLimits


def test_without_a_width_everything_may_start() -> None:
    limits = ParallelismLimits()
    assert [limits.add("a", key) for key in "123"] == [["1"], ["2"], ["3"]]


def test_who_leaves_lets_the_next_in_in_order() -> None:
    limits = ParallelismLimits()
    limits.set_width("a", 1)
    assert [limits.add("a", key) for key in "123"] == [["1"], [], []]
    assert limits.add("b", "x") == ["x"]
    assert limits.leave("a", "1") == ["2"]
    assert limits.waiting() == ["3"]


def test_who_leaves_while_waiting_frees_nothing_and_is_passed_over() -> None:
    limits = ParallelismLimits()
    limits.set_width("a", 1)
    for key in "123":
        limits.add("a", key)
    assert limits.leave("a", "2") == []
    assert limits.leave("a", "1") == ["3"]
    assert limits.leave("a", "1") == limits.leave("b", "1") == []


def test_a_new_width_lets_more_in_and_a_smaller_one_waits_for_ends() -> None:
    limits = ParallelismLimits()
    limits.set_width("a", 1)
    for key in "1234":
        limits.add("a", key)
    assert limits.set_width("a", 3) == ["2", "3"]
    assert limits.set_width("a", 1) == []
    assert limits.leave("a", "1") == limits.leave("a", "2") == []
    assert limits.leave("a", "3") == ["4"]


def test_what_ran_before_counts() -> None:
    limits = ParallelismLimits()
    limits.add_running("a", "old")
    limits.set_width("a", 1)
    assert limits.add("a", "new") == []
    assert limits.leave("a", "old") == ["new"]


def test_a_lane_is_dropped_only_when_it_is_empty() -> None:
    limits = ParallelismLimits()
    limits.set_width("a", 1)
    limits.add("a", "1")
    limits.drop("a")
    assert limits.add("a", "2") == []
    limits.leave("a", "1")
    limits.leave("a", "2")
    limits.drop("a")
    assert [limits.add("a", key) for key in "34"] == [["3"], ["4"]]
