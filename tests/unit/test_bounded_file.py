"""Files that a task or a user may have written: long ones, pipes and links to devices do not hurt who reads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grass.errors import ConflictError
from grass.files.share import read_index
from grass.system.bounded_file import UnfitFileError, read_at_most, read_end


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_at_most(tmp_path / "file", 5) == b"12345"
    with pytest.raises(UnfitFileError, match="is longer than 4 bytes"):
        read_at_most(tmp_path / "file", 4)


def test_a_pipe_and_a_device_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        with pytest.raises(UnfitFileError, match="is no file"):
            read_at_most(tmp_path / name, 5)


def test_of_the_end_of_a_file_only_whole_lines_are_read_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"secret=12345\nlast line\n")
    assert read_end(str(tmp_path / "file"), 20) == b"last line\n"
    assert read_end(str(tmp_path / "file"), 100) == b"secret=12345\nlast line\n"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnfitFileError, match="is no file"):
        read_end(str(tmp_path / "pipe"), 5)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="symbolic link"):
        read_end(str(tmp_path / "link"), 5)


def test_a_list_of_images_of_a_terabyte_is_refused(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    with (tmp_path / "images" / "index.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConflictError, match=r"is damaged \(.*is longer than 16777216 bytes\)"):
        read_index(tmp_path)
