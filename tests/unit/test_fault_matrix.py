"""The fault matrix as data: each cell is a promise or says why not, and the page is that of the last run."""

from __future__ import annotations

import pytest

from tests.faults import host_faults, local_faults, oracle, page, record, table
from tests.faults.promise import Calls, Found, NotHere, Promise, Tasks, broken
from tests.faults.states import STATES


def test_the_page_is_that_of_the_last_run() -> None:
    assert page.PAGE.read_text() == page.text(record.load()), "run `python -m tests.faults.page`"


def test_each_cell_is_tried_or_says_why_not() -> None:
    assert set(STATES) == set(table.STATES)
    assert {*local_faults.INJECTED, *host_faults.INJECTED} == set(table.FAULTS)
    cells = [fault.cell(state) for fault in table.FAULTS.values() for state in table.STATES]
    assert all(cell.reason for cell in cells if isinstance(cell, NotHere))
    assert sum(isinstance(cell, Promise) for cell in cells) > 250


def test_no_result_is_of_a_cell_that_does_not_exist() -> None:
    cells = {f"{fault.name}/{state}" for fault, states in table.chosen("") for state in states}
    assert set(record.load()) <= cells


def test_one_row_or_one_cell_can_be_chosen_and_others_are_named() -> None:
    assert table.chosen("node paused/running") == [(table.FAULTS["node paused"], ("running",))]
    assert table.IMAGE not in table.chosen("redis killed")[0][1]
    for wrong in ("nothing", "redis killed/nothing"):
        with pytest.raises(ValueError, match="there are"):
            table.chosen(wrong)


def test_an_attempt_that_begins_again_is_found_by_its_count_or_its_process() -> None:
    assert oracle.run_twice(["t.0/1 7 0", "t.0/1 7 1", "t.0/2 8 0"]) == []
    assert oracle.run_twice(["t.0/1 7 0", "t.0/1 8 0"]) == ["t.0/1 ran as processes 7, 8"]
    assert oracle.run_twice(["t.0/1 7 0", "t.0/1 7 0"]) == ["t.0/1 counted wrongly"]
    assert oracle.begun(["t.0/1 7 0", "t.0/2 8 0"]) == {"t.0/1", "t.0/2"}


def test_lines_that_are_missing_or_repeated_are_counted() -> None:
    assert oracle.gaps([0, 1, 2], 3) == (0, 0)
    assert oracle.gaps([0, 2], 3) == (1, 0)
    assert oracle.gaps([0, 1, 1, 2], 3) == (0, 1)
    assert oracle.gaps([0, 2, 1], 3) == (0, 1)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Found(), []),
        (Found(again=1), ["1 tasks started again"]),
        (Found(missing=2), ["2 lines are missing"]),
        (Found(repeated=2), ["2 lines are repeated"]),
        (Found(calls="cut"), ["a call broke: cut"]),
        (Found(healed=11.0), ["healed after 11.0 s, not 10 s"]),
        (Found(wrong=["lost"], opened=["PREY-1"]), ["lost", "opened to another user: PREY-1"]),
    ],
)
def test_each_broken_promise_is_named(found: Found, said: list[str]) -> None:
    assert broken(Promise(10.0), found) == said


def test_what_a_promise_allows_is_no_fault() -> None:
    assert broken(Promise(10.0, Tasks.EITHER, Calls.MAY_BREAK, writes=False), Found(1, 2, 0, "cut")) == []
    assert broken(Promise(10.0, Tasks.START_AGAIN), Found()) == ["no task started again"]
