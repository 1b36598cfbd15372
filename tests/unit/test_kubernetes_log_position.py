"""Copies of logs that were cut: no line twice, and a mark where lines are missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from node.runtime.kubernetes.log_position import Copied, LogPosition, NoLogError

T = "2026-11-27T03:44:0"


def line(second: int, nano: int, text: str) -> bytes:
    return f"{T}{second}.{nano:09d}Z {text}".encode()


def copied(position: LogPosition, lines: list[bytes]) -> tuple[list[bytes], bool]:
    """Take one answer. Return the new texts, and whether lines may be missing."""
    position.since()
    taken = [position.read_line(each) for each in lines]
    return [text for text, _ in taken if text is not None], any(lost for _, lost in taken)


def test_the_first_answer_is_copied_whole() -> None:
    position = LogPosition()
    assert position.since() is None
    assert copied(position, [line(1, 5, "a"), line(1, 5, "b"), line(2, 0, "")]) == ([b"a", b"b", b""], False)
    assert position.since() == f"{T}1Z"


def test_a_timestamp_without_a_fraction_is_the_whole_second() -> None:
    position = LogPosition()
    assert copied(position, [f"{T}1Z a".encode(), line(1, 1, "b")]) == ([b"a", b"b"], False)


Stamps = list[tuple[int, int]]
IN_ORDER = some.lists(some.tuples(some.integers(1, 4), some.integers(0, 2)), max_size=12).map(sorted)


def late(stamps: Stamps) -> Stamps:
    """Sort lines, but let those of two neighbouring seconds mix, as two streams do."""
    return sorted(stamps, key=lambda stamp: stamp[0] // 2)


@given(IN_ORDER | some.permutations([(1, 0), (1, 2), (2, 1), (3, 0), (3, 0), (4, 1)]).map(late), some.data())
def test_cuts_anywhere_lose_and_repeat_nothing(stamps: Stamps, data: some.DataObject) -> None:
    cuts = data.draw(some.lists(some.integers(0, len(stamps)), max_size=4))
    lines = [line(second, nano, f"line {number}") for number, (second, nano) in enumerate(stamps)]
    position, found = LogPosition(), []
    for cut in [*cuts, len(lines)]:
        position = LogPosition(position.copied())  # as another agent
        since = position.since()
        answer = [each for each in lines if since is None or each[:19] >= since[:19].encode()]
        texts, lost = copied(position, answer[:cut] if cut < len(lines) else answer)
        found += texts
        assert not lost
    assert found == [f"line {number}".encode() for number in range(len(lines))]


def test_the_later_of_two_streams_may_be_written_first() -> None:
    position = LogPosition()
    assert copied(position, [line(1, 9, "error"), line(1, 8, "out")]) == ([b"error", b"out"], False)
    again = [line(1, 9, "error"), line(1, 8, "out"), line(1, 7, "late"), line(1, 9, "more")]
    assert copied(position, again) == ([b"late", b"more"], False)


def test_the_time_of_another_zone_is_understood() -> None:
    position = LogPosition()
    east = [b"2026-11-27T05:44:01.5+02:00 a", b"2026-11-27T05:44:02.25+02:00 b"]
    assert copied(position, east) == ([b"a", b"b"], False)
    assert position.since() == f"{T}1Z"
    assert copied(position, [*east, b"2026-11-26T23:44:03-04:00 c"]) == ([b"c"], False)


def test_lines_that_were_rotated_away_leave_a_mark() -> None:
    position = LogPosition()
    copied(position, [line(1, 1, "a"), line(1, 2, "b")])
    assert copied(position, [line(3, 0, "z")]) == ([b"z"], True)
    assert copied(position, [line(3, 0, "z"), line(4, 0, "y")]) == ([b"y"], False)


def test_lines_that_were_rotated_away_after_they_were_copied_leave_no_mark() -> None:
    position = LogPosition()
    copied(position, [line(1, 1, "a"), line(1, 2, "b")])
    assert copied(position, [line(1, 2, "b"), line(3, 0, "z")]) == ([b"z"], False)


def test_an_answer_without_new_lines_leaves_no_mark() -> None:
    position = LogPosition()
    copied(position, [line(1, 1, "a")])
    assert copied(position, [line(1, 1, "a")]) == ([], False)
    assert copied(position, []) == ([], False)


def test_a_position_is_taken_up_again() -> None:
    position = LogPosition()
    copied(position, [line(1, 1, "a"), line(1, 1, "b")])
    assert position.copied() == Copied(f"{T}1.000000001", f"{T}1.000000001", {f"{T}1": 2})
    assert copied(LogPosition(position.copied()), [line(1, 1, "a"), line(1, 1, "b"), line(1, 1, "c")]) == (
        [b"c"],
        False,
    )


def test_parts_of_long_lines_are_joined() -> None:
    """As 1.20 shows a line of 40,000 characters: each 16 KiB begin with a timestamp."""
    parts = [b"x" * 16384, b"y" * 16384, b"z" * 7232]
    stamp = line(1, 5, "")
    assert copied(LogPosition(), [stamp + stamp.join(parts)]) == ([b"".join(parts)], False)


def test_a_sentence_of_the_kubelet_is_no_line() -> None:
    with pytest.raises(NoLogError, match="unable to retrieve"):
        LogPosition().read_line(b"unable to retrieve container logs for docker://3473")
