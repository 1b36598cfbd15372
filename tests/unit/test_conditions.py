from __future__ import annotations

import threading
from pathlib import Path

import pytest

from grass.model.reasons import Reason, ReasonCode
from grass.node_config import NodeConfig, NodeHome
from node.agent.conditions import Conditions, Share, lacks, together

GIB = 1 << 30
FILES = (1000, 1000)


@pytest.mark.parametrize(
    ("free", "total", "low", "words"),
    [
        (2 * GIB, 100 * GIB, None, ""),
        (GIB - 1, 100 * GIB, None, "less than 1GiB free"),
        (GIB - 1, 10 * GIB, None, ""),  # of a small disk 5 % will do
        (GIB // 2 - 1, 10 * GIB, None, "less than 512MiB free"),
        (10 * GIB, 100 * GIB, 20 * GIB, "less than 20GiB free"),
        (0, 100 * GIB, 0, ""),  # it was told not to mind
    ],
)
def test_a_disk_is_almost_full_below_the_limit(free: int, total: int, low: int | None, words: str) -> None:
    assert lacks(free, total, *FILES, low, before=False) == words


def test_what_was_almost_full_is_so_until_there_is_clearly_more() -> None:
    assert lacks(1100, 10_000, *FILES, 1000, before=True)
    assert not lacks(1100, 10_000, *FILES, 1000, before=False)
    assert not lacks(1250, 10_000, *FILES, 1000, before=True)


def test_a_disk_that_can_hold_no_more_files_is_full_and_one_that_counts_none_is_not() -> None:
    assert lacks(GIB, GIB, 9, 1000, 10, before=False) == "less than 1% of its files free"
    assert not lacks(GIB, GIB, 0, 0, 10, before=False)


def test_a_share_that_is_a_folder_and_is_gone_fails_with_the_reason_until_it_is_back(tmp_path: Path) -> None:
    share = Share(tmp_path / "share", None)
    found = share.look()
    assert found is not None
    assert found.code is ReasonCode.SHARE and found.message.endswith("share fails: no such file or directory")
    (tmp_path / "share").mkdir()
    assert share.look() is None


def test_a_share_that_is_not_where_it_was_mounted_is_said_to_be_gone(tmp_path: Path) -> None:
    found = Share(tmp_path, str(tmp_path)).look()
    assert found is not None and found.message == f"nothing is mounted at {tmp_path}, where the share was"


def test_who_waits_is_told_all_that_holds_it_back() -> None:
    assert together(()) is None
    both = together((Reason(ReasonCode.DISK, "disk almost full"), Reason(ReasonCode.SHARE, "the share is gone")))
    assert both == Reason(ReasonCode.DISK, "held back on its node: disk almost full; the share is gone")


def test_a_change_is_noticed_while_it_runs(tmp_path: Path) -> None:
    folder = tmp_path / "share"
    config = NodeHome("c", "m", str(tmp_path), str(tmp_path), share=str(folder), node=NodeConfig())
    (tmp_path / "node").mkdir()
    changed = threading.Event()
    watch = Conditions(config, changed.set, every=0.01)
    watch.start()
    assert [each.code for each in watch.now()] == [ReasonCode.SHARE]
    folder.mkdir()
    assert changed.wait(10)
    assert watch.now() == ()
    watch.stop()
