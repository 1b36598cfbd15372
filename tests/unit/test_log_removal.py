"""Logs of deleted jobs: gone for readers at once, from the disk soon, whatever happens in between."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from grass.system.clock import steady
from master.agent import log_removal
from master.agent.log_removal import LogRemoval
from master.collector.blocks import Block
from master.collector.storage import DeletedError, Storage, Target
from tests.support.waiting import wait_until


def write(folder: Path, job_id: str) -> Path:
    log = folder / job_id / "t.0.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("{}")
    return log


def test_logs_are_hidden_at_once_and_removed_without_anybody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(log_removal.shutil, "rmtree", lambda path, **_: asked.append(path))  # as on a disk that hangs
    removal = LogRemoval(tmp_path, steady)
    write(tmp_path, "a-1"), write(tmp_path, "b-1")
    removal.remove("a-1")
    assert [each.name for each in tmp_path.iterdir() if not each.name.startswith(".")] == ["b-1"]
    removal.remove("unknown-1")
    wait_until(lambda: asked == [tmp_path / ".removed-a-1"])


def test_what_a_killed_master_agent_left_is_removed_by_the_next(tmp_path: Path) -> None:
    write(tmp_path, ".removed-a-1"), write(tmp_path, "b-1")
    LogRemoval(tmp_path, steady).remove_left()
    wait_until(lambda: [each.name for each in tmp_path.iterdir()] == ["b-1"])


def test_logs_that_come_late_go_too(tmp_path: Path) -> None:
    write(tmp_path, ".removed-a-1"), write(tmp_path, "a-1")
    LogRemoval(tmp_path, steady).remove("a-1")
    wait_until(lambda: not (tmp_path / "a-1").exists())


def test_what_the_collector_gets_of_a_deleted_job_is_not_stored(tmp_path: Path) -> None:
    storage, removal = Storage(tmp_path), LogRemoval(tmp_path, steady)
    for job_id, printed in (("a-1", True), ("b-1", False)):
        target = Target(job_id, "t.0.jsonl")
        if printed:
            storage.append(target, [Block(1, "stdout", 0, 1.0, b"in time\n")])
        removal.remove(job_id)
        for text in (b"late\n", b"very late\n"):
            with pytest.raises(DeletedError, match=job_id):
                storage.append(target, [Block(1, "stdout", 8, 1.0, text)])
    wait_until(lambda: sorted(each.name for each in tmp_path.iterdir()) == [".deleted-a-1", ".deleted-b-1"])


def test_the_mark_of_a_deleted_job_is_removed_by_this_master_agent_or_the_next(tmp_path: Path) -> None:
    LogRemoval(tmp_path, steady).remove("a-1")
    removal = LogRemoval(tmp_path, steady, kept=0.01)
    removal.remove_left()
    write(tmp_path, "b-1")
    removal.remove("b-1")
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_a_job_that_is_deleted_while_the_collector_writes_leaves_nothing(tmp_path: Path) -> None:
    storage, removal = Storage(tmp_path), LogRemoval(tmp_path, steady, kept=0.2)
    over = threading.Event()

    def write_until_it_is_deleted(job_id: str) -> None:
        with suppress(DeletedError):
            for number in count():
                assert not over.is_set(), "it is not told"
                storage.append(Target(job_id, f"t.{number}.jsonl"), [Block(1, "stdout", 0, 1.0, b"line\n")])

    with ThreadPoolExecutor(1) as pool:
        try:
            for number in range(200):
                writing = pool.submit(write_until_it_is_deleted, f"a-{number}")
                removal.remove(f"a-{number}")
                writing.result(20)
        finally:
            over.set()
    wait_until(lambda: not list(tmp_path.iterdir()), what="an empty folder")
