"""``replace_file``: a reader sees a whole file, whoever writes and whatever fails."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grass.system.atomic_file import replace_file


@pytest.mark.parametrize("several_writers", [False, True])
def test_the_file_has_its_mode_whatever_the_umask_and_no_draft_stays(tmp_path: Path, several_writers: bool) -> None:
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "f", "text", mode=0o644, sync=True, several_writers=several_writers)
    finally:
        os.umask(before)
    assert (tmp_path / "f").read_text() == "text"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("several_writers", [False, True])
def test_a_write_that_fails_leaves_the_old_content_and_no_draft(tmp_path: Path, several_writers: bool) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "kept").touch()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "f", b"text", several_writers=several_writers)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f" / "kept").exists()


def test_concurrent_writers_never_mix_their_content(tmp_path: Path) -> None:
    path, texts = tmp_path / "f", [letter * 100_000 for letter in "abcdefgh"]
    with ThreadPoolExecutor(len(texts)) as pool:
        for _ in range(20):
            list(pool.map(lambda text: replace_file(path, text, several_writers=True), texts))
            assert path.read_text() in texts
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_a_durable_write_syncs_the_content_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        os, "fsync", lambda each: seen.append((os.readlink(f"/proc/self/fd/{each}"), (tmp_path / "f").exists()))
    )
    replace_file(tmp_path / "f", "text", sync=True)
    assert seen == [(f"{tmp_path}/f.new", False), (str(tmp_path), True)]
