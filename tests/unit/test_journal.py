from __future__ import annotations

import json
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from node.runtime.attempts import Attempt
from node.runtime.journal import Journal, replay
from node.runtime.journal_entries import (
    EndEntry,
    Entry,
    ForgetEntry,
    IntentEntry,
    LifeEntry,
    LimitsEntry,
    MainEndEntry,
    SpawnEntry,
    StopEntry,
    attempt_history,
    pack,
    unpack,
)
from node.runtime.shepherd_messages import Spent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shepherd.journal"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    made = Journal(path, "boot", 7)
    made.rewrite([])
    yield made
    made.close()


@contextmanager
def full_disk(path: Path, room: int = 0) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write_a_life(journal: Journal, key: str, pid: int = 11) -> None:
    journal.write(IntentEntry(key))
    journal.write(SpawnEntry(key, pid, began=1.0, returned=2.0, started=3.0, launch="j/c"))
    journal.write(StopEntry(key, 9.0, {"code": "timeout"}))
    journal.write(MainEndEntry(key, 5, None, 4.0))


def test_the_past_is_what_was_written(journal: Journal, path: Path) -> None:
    write_a_life(journal, "j/c.0/1")
    journal.write(IntentEntry("j/c.1/1"))
    past = replay(path)
    assert (past.boot_id, past.guard) == ("boot", 7)
    first, second = past.attempts["j/c.0/1"], past.attempts["j/c.1/1"]
    assert (first.pid, first.began, first.returned, first.started, first.launch) == (11, 1.0, 2.0, 3.0, "j/c")
    assert (first.stopping, first.kill_at, first.reason) == (True, 9.0, {"code": "timeout"})
    assert (first.code, first.main_ended, first.ended) == (5, 4.0, None)
    assert (second.pid, second.ended) == (None, None)
    journal.write(EndEntry("j/c.0/1", 5, None, None, 6.0, {"stdout": 1, "stderr": 2}))
    journal.write(ForgetEntry(["j/c.1/1"]))
    [ended] = replay(path).attempts.values()
    assert (ended.ended, ended.sizes, ended.reason) == (6.0, {"stdout": 1, "stderr": 2}, None)


def test_written_anew_it_says_the_same_in_fewer_words(journal: Journal, path: Path) -> None:
    write_a_life(journal, "j/c.0/1")
    for _ in range(10):
        journal.write(IntentEntry("j/c.1/1"))
        journal.write(ForgetEntry(["j/c.1/1"]))
    before = {key: attempt.report() for key, attempt in replay(path).attempts.items()}
    size = path.stat().st_size
    journal.rewrite(replay(path).attempts.values())
    assert {key: attempt.report() for key, attempt in replay(path).attempts.items()} == before
    assert path.stat().st_size < size


def test_no_journal_is_an_empty_past(path: Path) -> None:
    assert replay(path).attempts == {}


def test_a_line_torn_by_a_power_cut_is_left_out(journal: Journal, path: Path) -> None:
    write_a_life(journal, "j/c.0/1")
    path.write_bytes(path.read_bytes()[:-20])
    assert replay(path).attempts["j/c.0/1"].main_ended is None


def test_what_a_full_disk_refuses_is_written_when_there_is_room(journal: Journal, path: Path) -> None:
    write_a_life(journal, "j/c.0/1")
    with full_disk(path, room=10):
        assert not journal.write(EndEntry("j/c.0/1", 5, None, None, 6.0, None))
        assert not journal.write(IntentEntry("j/c.1/1"))
    assert journal.write(IntentEntry("j/c.2/1"))
    past = replay(path)
    assert past.attempts["j/c.0/1"].ended == 6.0
    assert set(past.attempts) == {"j/c.0/1", "j/c.1/1", "j/c.2/1"}


@pytest.mark.needs_root
def test_a_journal_has_space_of_its_own_when_others_fill_the_disk(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8M", "tmpfs", str(tmp_path)], check=True)
    try:
        path = tmp_path / "shepherd.journal"
        journal = Journal(path, "boot", 7)
        journal.rewrite([])
        with pytest.raises(OSError, match="No space left"), (tmp_path / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        for number in range(1000):
            assert journal.write(EndEntry(f"j/c.{number}/1", 5, None, None, 6.0, {"stdout": 1, "stderr": 2}))
        journal.close()
        assert len(replay(path).attempts) == 1000
        (tmp_path / "filler").unlink()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_on_a_full_disk_the_old_file_goes_on(path: Path) -> None:
    first = Journal(path, "boot", 7)
    first.rewrite([])
    write_a_life(first, "j/c.0/1")
    first.close()
    second = Journal(path, "boot", 8, compact_at=0)
    with full_disk(path, room=-10):
        second.rewrite([Attempt(f"j/c.{index}/1") for index in range(9)] + list(replay(path).attempts.values()) * 9)
    assert second.write(IntentEntry("j/c.1/1"))
    past = replay(path)
    assert past.guard == 8 and set(past.attempts) == {"j/c.0/1", "j/c.1/1"}
    assert not second.long
    second.close()


WRITTEN: list[tuple[bytes, Entry]] = [
    (b'["life","boot",7]', LifeEntry("boot", guard=7)),
    (b'["i","j/c.0/1"]', IntentEntry("j/c.0/1")),
    (b'["l","j/c.0/1","41-1",64,500]', LimitsEntry("j/c.0/1", group="41-1", memory=64, cpu=500)),
    (
        b'["s","j/c.0/1",11,1.5,2.5,3.5,"j/c",10]',
        SpawnEntry("j/c.0/1", pid=11, began=1.5, returned=2.5, started=3.5, launch="j/c", stop_signal=10),
    ),
    (b'["k","j/c.0/1",9.5,{"code":"timeout"}]', StopEntry("j/c.0/1", kill_at=9.5, reason={"code": "timeout"})),
    (b'["m","j/c.0/1",null,15,4.5]', MainEndEntry("j/c.0/1", code=None, signal=15, ended=4.5)),
    (
        b'["e","j/c.0/1",null,15,{"code":"timeout"},6.5,{"stdout":1,"stderr":2},[0.5,1024,512,0]]',
        EndEntry(
            "j/c.0/1",
            code=None,
            signal=15,
            reason={"code": "timeout"},
            ended=6.5,
            sizes={"stdout": 1, "stderr": 2},
            spent=Spent(cpu=0.5, memory=1024, read=512, written=0),
        ),
    ),
    (b'["f",["j/c.0/1"]]', ForgetEntry(["j/c.0/1"])),
]


@pytest.mark.parametrize(("line", "entry"), WRITTEN)
def test_an_entry_has_the_bytes_that_shepherds_of_other_versions_read_and_write(line: bytes, entry: Entry) -> None:
    assert pack(entry) == line + b"\n"
    assert unpack(json.loads(line)) == entry


@pytest.mark.parametrize(("line", "entry"), WRITTEN)
def test_what_a_later_version_adds_to_an_entry_is_left_out(line: bytes, entry: Entry) -> None:
    assert unpack([*json.loads(line), "added"]) == entry


def test_an_attempt_that_an_earlier_version_spawned_is_stopped_by_term(path: Path) -> None:
    path.write_bytes(b'["s","j/c.0/1",11,1.5,2.5,3.5,"j/c"]\n["s","j/c.1/1",12,1.5,2.5,3.5,"j/c",10]\n')
    assert [each.stop_signal for each in replay(path).attempts.values()] == [signal.SIGTERM, signal.SIGUSR1]


def test_an_end_that_an_earlier_version_wrote_tells_no_consumption(path: Path) -> None:
    path.write_bytes(b'["e","j/c.0/1",6,null,null,4.0,{"stdout":1,"stderr":2}]\n')
    assert replay(path).attempts["j/c.0/1"].spent is None


@pytest.mark.parametrize("line", [b'["x","j/c.0/1",1]', b'["s","j/c.0/1"]', b'["i",5]', b"7", b"[]", b'["f",1]'])
def test_an_entry_that_is_not_known_here_makes_no_attempt(path: Path, line: bytes) -> None:
    path.write_bytes(line + b"\n")
    assert replay(path).attempts == {}


def test_every_field_of_an_attempt_is_the_same_after_it_was_written_and_read(path: Path) -> None:
    lines = [line for line, entry in WRITTEN if not isinstance(entry, ForgetEntry)]
    path.write_bytes(b"\n".join(lines))
    [attempt] = replay(path).attempts.values()
    assert [pack(entry).rstrip() for entry in attempt_history(attempt)] == lines[2:]
