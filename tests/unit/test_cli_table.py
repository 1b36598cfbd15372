"""Tables at every width. The properties hold for whatever the cells are."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grass.cli import cells
from grass.cli.table import LEAST_CUT, Column, pairs, table

COLUMNS = (Column("NAME"), Column("ID", drop=2), Column("AGE", drop=1, right=True), Column("REASON", wrap=True))
ROW = ("digits", "digits-1a2b3c4d", "12s", "needs 8 cpu per task; the largest node has 2")


def test_without_a_limit_a_table_is_as_wide_as_it_gets() -> None:
    assert table(COLUMNS, [ROW], None) == [
        "NAME    ID               AGE  REASON",
        "digits  digits-1a2b3c4d  12s  needs 8 cpu per task; the largest node has 2",
    ]


def test_the_last_column_wraps_under_itself_before_any_other_suffers() -> None:
    assert table(COLUMNS, [ROW], 60) == [
        "NAME    ID               AGE  REASON",
        "digits  digits-1a2b3c4d  12s  needs 8 cpu per task; the",
        "                              largest node has 2",
    ]


def test_optional_columns_go_in_their_order_when_the_terminal_is_narrow() -> None:
    assert table(COLUMNS, [ROW], 50)[0] == "NAME    AGE  REASON"
    assert table(COLUMNS, [ROW], 34)[0] == "NAME    REASON"


def test_columns_that_must_stay_are_cut_with_an_ellipsis() -> None:
    lines = table((Column("NAME"), Column("STATE")), [("a-very-long-job-name", "RUNNING")], 20)
    assert lines == ["NAME         STATE", "a-very-lon…  RUNNING"]


def test_control_characters_never_reach_the_terminal() -> None:
    [_, line] = table((Column("NAME"),), [("\x1b[31mred\x07\u202e\n",)], None)
    assert line == "\\x1b[31mred\\x07\\u202e"


def test_wide_characters_take_two_cells() -> None:
    lines = table((Column("NAME"), Column("STATE")), [("数字", "RUNNING"), ("abcd", "QUEUED")], None)
    assert lines[1:] == ["数字  RUNNING", "abcd  QUEUED"]


def test_pairs_align_their_values_and_wrap_them() -> None:
    text = "one two three four five six seven eight nine ten"
    assert pairs([("Name", "x"), ("Reason", text)], 40) == [
        "Name    x",
        "Reason  one two three four five six",
        "        seven eight nine ten",
    ]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_usual_terminals_show_the_whole_reason(width: int) -> None:
    text = " ".join(line[30:] if width == 60 else line for line in table(COLUMNS, [ROW], width))
    for word in ROW[-1].split():
        assert word in text


anything = st.text(alphabet=string.ascii_letters + " 数é…\x1b\t", max_size=60)


@given(rows=st.lists(st.tuples(anything, anything, anything, anything), max_size=5), width=st.integers(20, 120))
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, ...]], width: int) -> None:
    assert width >= LEAST_CUT * 4
    assert all(cells.width(line) <= width for line in table(COLUMNS, rows, width))


@given(text=anything, room=st.integers(2, 40))
def test_wrapping_loses_nothing_but_blanks(text: str, room: int) -> None:
    text = cells.clean(text)
    lines = cells.wrap(text, room)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cells.width(line) <= room for line in lines)


@given(text=anything, room=st.integers(0, 40))
def test_clipped_text_fits(text: str, room: int) -> None:
    assert cells.width(cells.clip(text, room)) <= room
