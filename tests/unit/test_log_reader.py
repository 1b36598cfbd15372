"""Reading logs: lines out of blocks, tails, merging, following."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from grass.errors import InputError
from master.api.log_files import WINDOW
from master.api.log_lines import LONGEST
from master.api.logs import INCOMPLETE, LINE_COST, LONGEST_TAIL, Follower, LogLine
from master.collector.blocks import Block
from tests.support.examples import examples

JOB = "j-0123abcd"


def line_of(offset: int, data: bytes, *, time: float = 1.0, attempt: int = 1, stream: str = "stdout") -> bytes:
    return Block(attempt, stream, offset, time, data).to_line()


def write(root: Path, task: str, *lines: bytes) -> Path:
    path = root / JOB / f"{task}.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.writelines(lines)
    return path


def texts(lines) -> list[str]:
    return [line.text for line in lines]


def bytes_of(lines: list[LogLine], stream: str = "stdout") -> bytes:
    parts = [
        line.text.encode("utf-8", "surrogateescape") + (b"\n" if line.newline else b"")
        for line in lines
        if line.stream == stream
    ]
    return b"".join(parts)


outputs = st.binary(max_size=300) | st.lists(st.sampled_from([b"ab\n", b"\n", b"c", "ä".encode()])).map(b"".join)


@pytest.mark.timeout(240)  # it computes: beside other workers it takes several times as long
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(out=outputs, err=outputs, data=st.data())
def test_whatever_is_cut_repeated_torn_or_overlapping_the_reader_gives_the_bytes_that_were_printed(
    tmp_path_factory, out, err, data
):
    root = tmp_path_factory.mktemp("logs")
    wanted = {"stdout": out, "stderr": err}
    ends = {"stdout": 0, "stderr": 0}
    follower, followed = Follower(root, JOB), []
    joining, joined = Follower(root, JOB, joined=True), []
    write(root, "w.0")
    while ends != {name: len(value) for name, value in wanted.items()}:
        stream = data.draw(st.sampled_from([name for name in ends if ends[name] < len(wanted[name])]))
        start = data.draw(st.integers(max(0, ends[stream] - 20), ends[stream]))
        stop = data.draw(st.integers(start, min(len(wanted[stream]), start + 40)))
        line = line_of(start, wanted[stream][start:stop], stream=stream)
        match data.draw(st.sampled_from(["whole", "torn before", "foreign before", "twice"])):
            case "torn before":
                write(root, "w.0", line[: data.draw(st.integers(0, len(line) - 2))])
            case "foreign before":
                write(root, "w.0", b'{"some": "thing"}\n\xff\n\n')
            case "twice":
                write(root, "w.0", line)
        write(root, "w.0", line)
        ends[stream] = max(ends[stream], stop)
        followed += follower.poll()
        joined += joining.poll()
    followed += follower.poll() + follower.finish()
    joined += joining.poll() + joining.finish()
    assert {stream: bytes_of(joined, stream) for stream in wanted} == wanted
    assert follower.reached("w.0", 1, {"stdout": len(out), "stderr": len(err)})
    for lines in (followed, list(Follower(root, JOB).drain())):
        assert bytes_of(lines) == out
        assert bytes_of(lines, "stderr") == err
    everything = list(Follower(root, JOB).drain())
    assert list(Follower(root, JOB, tail=3).drain()) == everything[-3:]


def test_a_job_that_never_printed_has_no_lines(tmp_path):
    assert list(Follower(tmp_path, JOB).drain()) == []
    follower = Follower(tmp_path, JOB)
    assert follower.poll() == []
    assert follower.reached("w.0", 1, {"stdout": 0, "stderr": 0})
    assert not follower.reached("w.0", 1, {"stdout": 1, "stderr": 0})


def test_lines_of_several_tasks_come_in_order_of_time(tmp_path):
    write(tmp_path, "w.0", line_of(0, b"a\nb\n", time=1), line_of(4, b"e\n", time=5))
    write(tmp_path, "w.1", line_of(0, b"c\n", time=2), line_of(2, b"d\n", time=3), line_of(4, b"f", time=6))
    assert texts(Follower(tmp_path, JOB).drain()) == list("abcdef")
    assert texts(Follower(tmp_path, JOB, tail=2).drain()) == ["e", "f"]
    assert texts(Follower(tmp_path, JOB, since=3).drain()) == ["d", "e", "f"]


def test_a_clock_that_jumps_back_changes_neither_content_nor_order_of_a_task(tmp_path):
    write(tmp_path, "w.0", line_of(0, b"a\n", time=3600), line_of(2, b"b\n", time=1), line_of(4, b"c\n", time=2))
    write(tmp_path, "w.1", line_of(0, b"x\n", time=2))
    assert texts(Follower(tmp_path, JOB).drain()) == ["x", "a", "b", "c"]


def test_components_and_tasks_are_chosen_by_name(tmp_path):
    for task in ("actor.0", "actor.1", "actor.10", "learner.0", "my.actor.1"):
        write(tmp_path, task, line_of(0, task.encode() + b"\n"))
    (tmp_path / JOB / "notes.txt").write_text("not a log\n")
    assert texts(Follower(tmp_path, JOB, component="actor").drain()) == ["actor.0", "actor.1", "actor.10"]
    assert texts(Follower(tmp_path, JOB, component="actor", index=1).drain()) == ["actor.1"]
    assert texts(Follower(tmp_path, JOB, index=1).drain()) == ["actor.1", "my.actor.1"]
    assert texts(Follower(tmp_path, JOB, component="nobody").drain()) == []


def test_a_last_line_without_newline_is_told_apart(tmp_path):
    write(tmp_path, "w.0", line_of(0, b"whole\nhalf"))
    assert [(line.text, line.newline) for line in Follower(tmp_path, JOB).drain()] == [("whole", True), ("half", False)]


def test_the_last_words_of_an_attempt_come_before_the_lines_of_the_next(tmp_path):
    follower = Follower(tmp_path, JOB)
    write(tmp_path, "w.0", line_of(0, b"a\ndying", time=1))
    assert texts(follower.poll()) == ["a"]
    assert follower.unfinished() == [("w.0", 1)]
    write(tmp_path, "w.0", line_of(0, b"b\nc\n", time=2, attempt=2))
    assert texts(follower.poll()) == ["dying", "b", "c"]
    assert follower.unfinished() == follower.finish() == []
    assert texts(Follower(tmp_path, JOB).drain()) == ["a", "dying", "b", "c"]
    assert texts(Follower(tmp_path, JOB, tail=3).drain()) == ["dying", "b", "c"]


BLOCK = 64 * 1024


def no_newline(blocks: int) -> list[bytes]:
    return [line_of(n * BLOCK, b"x" * BLOCK) for n in range(blocks)]


def test_a_line_of_a_megabyte_is_one_line(tmp_path):
    write(tmp_path, "w.0", *no_newline(16), line_of(16 * BLOCK, b"\nend\n"))
    for follower in (Follower(tmp_path, JOB), Follower(tmp_path, JOB, tail=2)):
        assert [len(text) for text in texts(follower.drain())] == [16 * BLOCK, 3]
    assert texts(Follower(tmp_path, JOB, tail=1).drain()) == ["end"]


@pytest.mark.parametrize("joined", [False, True])
def test_a_longer_line_comes_in_pieces_and_no_byte_is_lost(tmp_path, joined):
    write(tmp_path, "w.0", *no_newline(160), line_of(160 * BLOCK, b"\nend\n"))
    lines = list(Follower(tmp_path, JOB, joined=joined).drain())
    assert max(len(line.text) for line in lines) <= LONGEST + BLOCK
    assert bytes_of(lines) == 160 * BLOCK * b"x" + b"\nend\n"
    assert not any(line.newline for line in lines[:-2])


def test_a_tail_begins_with_a_piece_of_a_long_line(tmp_path):
    write(tmp_path, "w.0", *no_newline(160), line_of(160 * BLOCK, b"\nend\n"))
    *pieces, end = Follower(tmp_path, JOB, tail=3).drain()
    assert [line.newline for line in pieces] == [False, True] and end.text == "end"


def test_incomplete_lines_of_many_tasks_are_not_held(tmp_path):
    for task in range(40):
        write(tmp_path, f"w.{task}", *no_newline(15))
    follower = Follower(tmp_path, JOB)
    lines = follower.poll()
    while more := follower.poll():
        lines += more
    held = 40 * 15 * BLOCK - sum(len(line.text) for line in lines)
    assert 0 < held <= INCOMPLETE
    assert sum(len(line.text) for line in follower.finish()) == held


def test_a_tail_of_long_lines_is_shorter_than_asked_for(tmp_path):
    line = b"x" * (BLOCK - 1) + b"\n"
    write(tmp_path, "w.0", *(line_of(n * BLOCK, line) for n in range(300)))
    lines = list(Follower(tmp_path, JOB, tail=10**9).drain())
    assert LONGEST_TAIL - BLOCK < sum(len(line.text) + LINE_COST for line in lines) <= LONGEST_TAIL


def test_lost_bytes_are_said_and_what_follows_is_still_told(tmp_path):
    write(tmp_path, "w.0", line_of(0, b"one\ntw"), line_of(100, b"ee\nfour\n"))
    assert [(line.text, line.newline, line.lost) for line in Follower(tmp_path, JOB).drain()] == [
        ("one", True, 0),
        ("tw", False, 0),
        ("ee", True, 94),
        ("four", True, 0),
    ]


def long_log(tmp_path, *, size: int) -> int:
    count, offset, lines = 0, 0, []
    while offset < size:
        data = b"".join(b"line %07d\n" % n for n in range(count, count + 100))
        lines.append(line_of(offset, data, time=1000.0 + count))
        offset, count = offset + len(data), count + 100
    write(tmp_path, "w.0", line_of(0, b"early warning", stream="stderr", time=1), *lines)
    return count


def bytes_read() -> int:
    """By this process so far."""
    return int(re.search(r"^rchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)[1])


def test_a_tail_reads_the_end_of_a_file_only(tmp_path):
    count = long_log(tmp_path, size=8 * WINDOW)
    before = bytes_read()
    assert texts(Follower(tmp_path, JOB, tail=3).drain()) == [f"line {n:07}" for n in range(count - 3, count)]
    assert bytes_read() - before < 4 * WINDOW


def test_a_tail_that_is_longer_than_the_log_is_the_log(tmp_path):
    long_log(tmp_path, size=2 * WINDOW)
    assert list(Follower(tmp_path, JOB, tail=10**6).drain())[1:] == list(Follower(tmp_path, JOB).drain())[:-1]


def test_following_begins_with_the_tail_and_knows_what_came_before_it(tmp_path):
    count = long_log(tmp_path, size=3 * WINDOW)
    size = count * len("line 0000000\n")
    follower = Follower(tmp_path, JOB, tail=1)
    assert texts(follower.poll()) == [f"line {count - 1:07}"]
    assert follower.poll() == []
    write(tmp_path, "w.0", line_of(size - 5, b"0099\nnew\n", time=10**6))
    write(tmp_path, "w.1", line_of(0, b"another task\n", time=10**6))
    assert texts(follower.poll()) == ["new", "another task"]
    assert follower.reached("w.0", 1, {"stdout": size + 4, "stderr": len("early warning")})
    assert not follower.reached("w.0", 1, {"stdout": size + 5, "stderr": 0})


def test_following_only_what_comes_is_a_tail_of_none(tmp_path):
    write(tmp_path, "w.0", line_of(0, b"old\n"))
    follower = Follower(tmp_path, JOB, tail=0)
    assert follower.poll() == []
    write(tmp_path, "w.0", line_of(4, b"new\n"))
    assert texts(follower.poll()) == ["new"]


def test_a_poll_is_bounded_and_the_next_goes_on(tmp_path):
    count = long_log(tmp_path, size=4 * WINDOW)
    follower, polls = Follower(tmp_path, JOB), []
    while lines := follower.poll():
        polls.append(len(lines))
    assert sum(polls) == count
    assert len(polls) >= 4


def test_a_torn_line_that_the_collector_cut_off_is_read_when_it_is_written_again(tmp_path):
    whole, again = line_of(0, b"a\n"), line_of(2, b"b\n")
    path = write(tmp_path, "w.0", whole, again[:20])
    follower = Follower(tmp_path, JOB)
    assert texts(follower.poll()) == ["a"]
    path.write_bytes(whole)
    write(tmp_path, "w.0", again)
    assert texts(follower.poll()) == ["b"]


def test_a_log_that_is_deleted_and_written_anew_repeats_nothing(tmp_path):
    path = write(tmp_path, "w.0", line_of(0, b"a\n"))
    follower = Follower(tmp_path, JOB)
    assert texts(follower.poll()) == ["a"]
    path.rename(path.with_suffix(".gone"))
    assert follower.poll() == []
    write(tmp_path, "w.0", line_of(0, b"a\nb\n"))
    assert texts(follower.poll()) == ["b"]


@pytest.mark.parametrize("job_id", ["", "..", "a/b", "../x", ".hidden", "a\n"])
def test_a_job_id_that_is_a_path_is_refused(tmp_path, job_id):
    with pytest.raises(InputError):
        list(Follower(tmp_path, job_id).drain())
