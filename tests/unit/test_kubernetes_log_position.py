"""Copies of logs that were cut: no line twice, and a mark where lines are missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from node.runtime.kubernetes.log_position import LogPosition, NoLogError

T = "2026-11-27T03:44:0"


def line(second: int, nano: int, text: str) -> bytes:
    return f"{T}{second}.{nano:09d}Z {text}".encode()


def copied(position: LogPosition, lines: list[bytes]) -> tuple[list[bytes], bool]:
    """Take one answer. Return the new texts, and whether lines may be missing."""
    position.since()
    taken = [position.take(each) for each in lines]
    return [text for text, _ in taken if text is not None], any(lost for _, lost in taken)


def test_the_first_answer_is_copied_whole() -> None:
    position = LogPosition()
    assert position.since() is None
    assert copied(position, [line(1, 5, "a"), line(1, 5, "b"), line(2, 0, "")]) == ([b"a", b"b", b""], False)
    assert position.since() == f"{T}2Z"


def test_a_timestamp_without_a_fraction_is_the_whole_second() -> None:
    position = LogPosition()
    assert copied(position, [f"{T}1Z a".encode(), line(1, 1, "b")]) == ([b"a", b"b"], False)


@given(
    some.lists(some.tuples(some.integers(1, 3), some.integers(0, 2)), max_size=12).map(sorted),
    some.lists(some.integers(0, 12), max_size=4),
)
def test_cuts_anywhere_lose_and_repeat_nothing(stamps: list[tuple[int, int]], cuts: list[int]) -> None:
    lines = [line(second, nano, f"line {number}") for number, (second, nano) in enumerate(stamps)]
    position, found = LogPosition(), []
    for cut in [*cuts, len(lines)]:
        since = position.since()
        answer = [each for each in lines if since is None or each[:19] >= since[:19].encode()]
        texts, lost = copied(position, answer[:cut] if cut < len(lines) else answer)
        found += texts
        assert not lost
    assert found == [f"line {number}".encode() for number in range(len(lines))]


def test_lines_that_were_rotated_away_leave_a_mark() -> None:
    position = LogPosition()
    copied(position, [line(1, 1, "a"), line(1, 2, "b")])
    assert copied(position, [line(3, 0, "z")]) == ([b"z"], True)
    assert copied(position, [line(3, 0, "z"), line(4, 0, "y")]) == ([b"y"], False)


def test_an_answer_without_new_lines_leaves_no_mark() -> None:
    position = LogPosition()
    copied(position, [line(1, 1, "a")])
    assert copied(position, [line(1, 1, "a")]) == ([], False)
    assert copied(position, []) == ([], False)


def test_a_position_is_taken_up_again() -> None:
    position = LogPosition()
    copied(position, [line(1, 1, "a"), line(1, 1, "b")])
    assert position.last is not None
    again = LogPosition(position.last, position.count)
    assert copied(again, [line(1, 1, "a"), line(1, 1, "b"), line(1, 1, "c")]) == ([b"c"], False)


def test_parts_of_long_lines_are_joined() -> None:
    """As 1.20 shows a line of 40,000 characters: each 16 KiB begin with a timestamp."""
    parts = [b"x" * 16384, b"y" * 16384, b"z" * 7232]
    stamp = line(1, 5, "")
    assert copied(LogPosition(), [stamp + stamp.join(parts)]) == ([b"".join(parts)], False)


def test_a_sentence_of_the_kubelet_is_no_line() -> None:
    with pytest.raises(NoLogError, match="unable to retrieve"):
        LogPosition().take(b"unable to retrieve container logs for docker://3473")
