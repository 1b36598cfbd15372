"""Logs of deleted jobs: gone for readers at once, from the disk soon, whatever happens in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.agent import log_removal
from master.agent.log_removal import LogRemoval
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
    removal = LogRemoval(tmp_path)
    write(tmp_path, "a-1"), write(tmp_path, "b-1")
    removal.remove("a-1")
    assert [each.name for each in tmp_path.iterdir() if not each.name.startswith(".")] == ["b-1"]
    removal.remove("unknown-1")
    wait_until(lambda: asked == [tmp_path / ".removed-a-1"])


def test_what_a_killed_master_agent_left_is_removed_by_the_next(tmp_path: Path) -> None:
    write(tmp_path, ".removed-a-1"), write(tmp_path, "b-1")
    LogRemoval(tmp_path).remove_left()
    wait_until(lambda: [each.name for each in tmp_path.iterdir()] == ["b-1"])


def test_logs_that_come_late_go_too(tmp_path: Path) -> None:
    write(tmp_path, ".removed-a-1"), write(tmp_path, "a-1")
    LogRemoval(tmp_path).remove("a-1")
    wait_until(lambda: not (tmp_path / "a-1").exists())
