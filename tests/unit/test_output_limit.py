"""The limit of a task's output: in the collector's file, and in the files of the attempt on its node."""

from __future__ import annotations

from pathlib import Path

from grass.wire.keys import AttemptKey
from master.api.logs import Follower
from master.collector.blocks import Block
from master.collector.storage import Storage, Target
from node.agent.log_source import AttemptLog, Stream

JOB = "j-0123abcd"
TARGET = Target(JOB, "w.0.jsonl")
LIMIT = 1 << 20
LINES = 1000
"""Lines in a block, of eight bytes each."""


def lines(start: int, count: int = LINES) -> bytes:
    return b"".join(b"%07d\n" % number for number in range(start, start + count))


def filled(root: Path, blocks: int, storage: Storage | None = None, start: int = 0) -> Path:
    """Return the file after so many blocks of 8,000 bytes, none of which may exceed the limit by much."""
    storage = storage or Storage(root)
    path = root / JOB / "w.0.jsonl"
    for number in range(start, start + blocks):
        storage.append(TARGET, [Block(1, "stdout", 8000 * number, 1.0, lines(LINES * number), LIMIT)])
        assert on_disk(path) <= LIMIT + (LIMIT >> 4)
    return path


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def numbers(found) -> list[int]:
    return [int(line.text) for line in found]


def test_the_beginning_and_the_newest_part_are_kept_and_what_is_missing_is_counted(tmp_path: Path) -> None:
    path = filled(tmp_path, 600)
    assert path.stat().st_size > 4 * LIMIT
    found = list(Follower(tmp_path, JOB).drain())
    [gap] = [place for place, line in enumerate(found) if line.lost]
    kept = numbers(found)
    assert kept[:gap] == list(range(gap)) and kept[gap:] == list(range(kept[gap], 600 * LINES))
    assert found[gap].lost == 8 * (kept[gap] - gap)
    for part in (kept[:gap], kept[gap:]):
        assert 8 * len(part) > LIMIT // 4
    for tail in (5, 10**6):
        assert numbers(Follower(tmp_path, JOB, tail=tail).drain()) == kept[-tail:]


def test_a_collector_that_starts_again_goes_on_behind_the_hole_and_stores_nothing_twice(tmp_path: Path) -> None:
    filled(tmp_path, 300)
    filled(tmp_path, 300, Storage(tmp_path), start=295)
    kept = numbers(Follower(tmp_path, JOB).drain())
    assert len(kept) == len(set(kept)) and kept[-1] == 595 * LINES - 1


def test_who_follows_while_the_middle_is_dropped_goes_on_behind_it(tmp_path: Path) -> None:
    storage, follower = Storage(tmp_path), Follower(tmp_path, JOB)
    filled(tmp_path, 20, storage)
    found = follower.poll()
    filled(tmp_path, 580, storage, start=20)
    while more := follower.poll():
        found += more
    assert numbers(found)[-1] == 600 * LINES - 1 and sum(1 for line in found if line.lost) == 1
    assert follower.reached("w.0", 1, {"stdout": 8000 * 600})


class Shipped:
    """The log of one attempt on its node, and all that was sent of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "stdout"
        self.folder = folder
        self.sent = b""
        self.offset = 0
        self.open()

    def open(self) -> None:
        self.log = AttemptLog(str(AttemptKey.parse(f"{JOB}/w.0/1")), self.folder)
        self.log.output_limit = LIMIT
        self.log.restore(0.0)
        self.stdout = self.log.streams[0]

    def print_(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def ship_all(self, now: float) -> None:
        data = None
        while data is None or data:
            self.log.drop_excess(now)
            data = b"".join(self.stdout.read(1 << 18, now))
            self.offset = self.stdout.offset + len(data)
            self.sent += data
            self.log.advance(self.stdout, len(data), now)


def test_what_was_shipped_is_on_the_node_no_more_and_nothing_is_lost(tmp_path: Path) -> None:
    shipped = Shipped(tmp_path)
    for turn in range(10):
        shipped.print_(lines(100_000 * turn, 100_000))
        shipped.ship_all(float(turn))
        shipped.log.store(float(turn))
        if turn == 5:
            shipped.open()  # another shipper goes on
        assert on_disk(shipped.path) < 1_100_000
    assert shipped.sent == lines(0, 1_000_000)


def test_output_that_a_readiness_check_searches_stays_on_the_node(tmp_path: Path) -> None:
    shipped = Shipped(tmp_path)
    shipped.log.searched = True
    for turn in range(5):
        shipped.print_(lines(100_000 * turn, 100_000))
        shipped.ship_all(0.0)
    shipped.log.store(0.0)
    assert on_disk(shipped.path) >= 4_000_000
    shipped.log.searched = False
    shipped.log.store(1.0)
    assert on_disk(shipped.path) < 1_100_000


def test_more_than_the_limit_does_not_wait_on_the_node_while_the_collector_is_away(tmp_path: Path) -> None:
    shipped = Shipped(tmp_path)
    shipped.print_(lines(0, 10_000))
    shipped.ship_all(0.0)
    for turn in range(1, 11):
        shipped.print_(lines(100_000 * turn, 100_000))
        shipped.log.drop_excess(float(turn))
        assert on_disk(shipped.path) < 2 * LIMIT
    shipped.log.store(11.0)
    shipped.open()  # the next shipper knows what was dropped
    shipped.ship_all(20.0)
    kept = [int(line) for line in shipped.sent.split()]
    assert kept[:20_000] == [*range(10_000), *range(100_000, 110_000)]
    assert kept[-1] == 1_099_999 and kept == sorted(set(kept))
    assert shipped.offset == shipped.path.stat().st_size
    assert LIMIT // 4 < len(shipped.sent) < 2 * LIMIT


def test_a_file_that_the_task_truncates_keeps_its_new_content(tmp_path: Path) -> None:
    shipped = Shipped(tmp_path)
    shipped.print_(lines(0, 100_000))
    shipped.ship_all(0.0)
    shipped.log.store(0.0)
    shipped.path.write_bytes(lines(7_000_000, 100_000))
    shipped.log.store(0.5)
    shipped.ship_all(1.0)
    shipped.log.store(1.0)
    assert shipped.sent.endswith(lines(7_000_000, 100_000))


def test_what_is_dropped_begins_where_more_is_dropped_already(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(lines(0, 10_000))
    stream = Stream(path, "stdout")
    assert stream.excess(80_000) is None
    assert stream.excess(40_000) == (20_000, 70_008), (
        "half of 40,000 bytes is kept at the beginning, a fourth at the end"
    )
    stream.hole = (8192, 30_000)
    assert stream.excess(50_000) is None
    assert stream.excess(40_000) == (8192, 70_008)
