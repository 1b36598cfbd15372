"""The files of a master on another machine: the same after each pass, whatever changes, and whatever links say."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from grass.errors import InputError
from grass.provision.on_premises.mirror import HOME, SHARE, Places, digest, listing, receive, send
from tests.unit.test_restore_target import write


class Sides:
    """The old machine and the new one."""

    def __init__(self, folder: Path) -> None:
        self.old = Places(str(folder / "old" / HOME), str(folder / "old" / SHARE), live=False)
        self.new = Places(str(folder / "new" / HOME), str(folder / "new" / SHARE), live=False)
        self.home, self.share = Path(self.old.home), Path(self.old.share)
        self.there = Path(self.new.share)

    def stream(self, *, live: bool = False) -> bytes:
        stream = io.BytesIO()
        send(Places(self.old.home, self.old.share, live=live), listing(self.new), stream)
        return stream.getvalue()

    def copy(self, *, live: bool = False) -> int:
        stream = self.stream(live=live)
        receive(self.new, io.BytesIO(stream))
        return len(stream)

    def same(self) -> bool:
        return digest(self.old) == digest(self.new)


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    made = Sides(tmp_path)
    write(made.home, "old", "secrets.json", "redis/appendonlydir/a.incr.aof", "master/key.pem", "cluster.json", "made")
    write(made.share, "old", "logs/j/w.0.jsonl", "data/ann/x", "jobs/j/out")
    return made


def test_what_makes_the_master_is_copied_and_what_is_of_its_machine_is_not(sides: Sides) -> None:
    os.mkfifo(sides.share / "data" / "pipe")
    (sides.share / os.fsdecode(b"data/\xff\n")).write_text("x")
    (sides.share / "jobs/j/out").chmod(0o640)
    sides.copy()
    assert sides.same()
    assert {each.name for each in Path(sides.new.home).iterdir()} == {"secrets.json", "redis", "master"}
    assert (sides.there / "jobs/j/out").stat().st_mode & 0o777 == 0o640
    assert (sides.there / os.fsdecode(b"data/\xff\n")).read_text() == "x"
    assert not (sides.there / "data/pipe").exists()


def test_the_next_pass_brings_only_the_rest_of_a_log_and_removes_what_is_gone(sides: Sides) -> None:
    log = sides.share / "logs/j/w.0.jsonl"
    log.write_bytes(os.urandom(1 << 20))
    sides.copy()
    with log.open("a") as file:
        file.write("another line")
    (sides.share / "data/ann/x").unlink()
    assert sides.copy() < 1 << 18
    assert sides.same() and not (sides.there / "data/ann/x").exists()


def test_a_log_that_was_written_anew_is_copied_whole(sides: Sides) -> None:
    log = sides.share / "logs/j/w.0.jsonl"
    log.write_text("a" * 1000)
    sides.copy()
    log.write_text("b" * 2000)
    sides.copy()
    assert sides.same() and (sides.there / "logs/j/w.0.jsonl").read_text() == "b" * 2000


def test_a_file_that_changed_just_now_is_looked_at_again_although_size_and_time_are_the_same(sides: Sides) -> None:
    path = sides.share / "data/ann/x"
    at = path.stat().st_mtime_ns
    sides.copy(live=True)
    path.write_text("new")
    os.utime(path, ns=(at, at))  # in the same tick of the clock
    sides.copy()
    assert (sides.there / "data/ann/x").read_text() == "new"


def test_links_are_copied_as_links_and_never_followed(sides: Sides, tmp_path: Path) -> None:
    write(tmp_path / "outside", "secret", "f")
    link = sides.share / "data/link"
    link.symlink_to(tmp_path / "outside")
    sides.copy()
    assert (sides.there / "data/link").readlink() == tmp_path / "outside"
    link.unlink()
    write(link, "mine", "f")
    sides.copy()
    assert sides.same() and not (sides.there / "data/link").is_symlink()
    assert (tmp_path / "outside/f").read_text() == "secret"


def test_a_stream_through_a_link_or_out_of_the_folders_is_refused(sides: Sides, tmp_path: Path) -> None:
    stream = sides.stream()
    (tmp_path / "outside").mkdir()
    sides.there.rmdir()
    sides.there.symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="a link leads there"):
        receive(sides.new, io.BytesIO(stream))
    for name in ("share/../x", "elsewhere/x"):
        with pytest.raises(InputError, match="outside of the folders"):
            sides.new.folder(name)


def test_a_stream_that_ends_early_is_refused_and_the_next_one_completes_the_files(sides: Sides) -> None:
    (sides.share / "data/ann/x").write_bytes(os.urandom(1 << 16))
    stream = sides.stream()
    with pytest.raises(tarfile.TarError):
        receive(sides.new, io.BytesIO(stream[: len(stream) // 2]))
    sides.copy()
    assert sides.same()
