from __future__ import annotations

from master.agent.floods import CHECK_EVERY, MOST_BYTES, MOST_TAKEN, MOST_WAITING, WINDOW, Floods


def test_a_busy_node_is_no_flood() -> None:
    floods = Floods()
    for second in range(60):
        floods.note(["n1"] * 500, float(second))
        assert floods.judge({"n1": (MOST_WAITING, MOST_BYTES)}, [], float(second)) == {}


def test_too_many_reports_are_told_once() -> None:
    floods = Floods()
    floods.note(["n1"] * (MOST_TAKEN + 1) + ["n2"], 1.0)
    assert list(floods.judge({}, [], 1.0)) == ["n1"]
    assert floods.judge({}, [], 2.0) == {}


def test_a_window_forgets_what_was_before() -> None:
    floods = Floods()
    floods.note(["n1"] * MOST_TAKEN, 1.0)
    floods.note(["n1"] * MOST_TAKEN, 1.1 + WINDOW)
    assert floods.judge({}, [], 1.1 + WINDOW) == {}


def test_what_waits_is_bounded_by_number_and_by_bytes() -> None:
    floods = Floods()
    found = floods.judge({"many": (MOST_WAITING + 1, 5), "large": (1, MOST_BYTES + 1), "fine": (9, 9)}, ["crowd"], 1.0)
    assert set(found) == {"many", "large", "crowd"}


def test_checks_are_spaced() -> None:
    floods = Floods()
    floods.judge({}, [], 10.0)
    assert not floods.due(10.0 + CHECK_EVERY / 2)
    assert floods.due(10.0 + CHECK_EVERY)
