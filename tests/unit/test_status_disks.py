"""The disks of the master, as `/v1/status` shows them."""

from __future__ import annotations

import os
from pathlib import Path

from master.api.status import disks


def test_each_disk_is_there_once_with_all_that_it_holds(tmp_path: Path) -> None:
    state, logs = tmp_path / "state", tmp_path / "logs"
    state.mkdir()
    logs.mkdir()
    [found] = disks({"state": state, "logs": logs, "lost": tmp_path / "none"})
    real = os.statvfs(tmp_path)
    assert found.holds == "state and logs"
    assert found.total == real.f_blocks * real.f_frsize and 0 <= found.free <= found.total


def test_folders_on_two_disks_are_told_apart(tmp_path: Path) -> None:
    assert [disk.holds for disk in disks({"state": tmp_path, "logs": Path("/proc")})] == ["state", "logs"]
