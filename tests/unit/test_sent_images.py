"""Parts of images that a user sent: what was checked is what stays, whatever the user does to the files meanwhile."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from grass.errors import ConflictError
from grass.files import share
from grass.files.operations import ImageEntry

CONTENT = b"a layer"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ENTRY = ImageEntry(f"sha256:{DIGEST}", DIGEST, (), len(CONTENT), 0.0, "ann")


def sent(folder: Path) -> Path:
    """Where ann sends the part."""
    path = folder / share.incoming("ann") / "blobs" / DIGEST
    path.parent.mkdir(parents=True)
    return path


def test_a_part_cannot_be_changed_once_it_was_taken(tmp_path: Path) -> None:
    part, other_name = sent(tmp_path), tmp_path / "other"
    part.write_bytes(CONTENT)
    os.link(part, other_name)
    with other_name.open("r+b") as held:
        share.add_image(tmp_path, "trainer:1", ENTRY)
        held.write(b"another")
    blob = tmp_path / "images" / "blobs" / DIGEST
    assert blob.read_bytes() == CONTENT and not part.exists()
    assert sorted(path.name for path in blob.parent.iterdir()) == [DIGEST]


def test_a_link_is_no_part(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(CONTENT)
    sent(tmp_path).symlink_to(target)
    with pytest.raises(ConflictError, match="have not arrived"):
        share.add_image(tmp_path, "trainer:1", ENTRY)


def test_a_part_that_is_not_what_its_name_says_is_removed(tmp_path: Path) -> None:
    sent(tmp_path).write_bytes(b"other content")
    with pytest.raises(ConflictError, match="damaged"):
        share.add_image(tmp_path, "trainer:1", ENTRY)
    assert share.missing_blobs(tmp_path, [DIGEST]) == [DIGEST]


def test_nothing_stays_of_an_image_that_cannot_be_added(tmp_path: Path) -> None:
    """It would count for nobody's quota."""
    part, absent = sent(tmp_path), hashlib.sha256(b"never sent").hexdigest()
    part.write_bytes(CONTENT)
    entry = ImageEntry("x", DIGEST, (absent,), 1, 0.0, "ann")
    with pytest.raises(ConflictError, match="2 of its parts have not arrived"):
        share.add_image(tmp_path, "trainer:1", entry)
    assert part.exists() and blobs(tmp_path) == []  # it can be pushed again
    part.with_name(absent).write_bytes(b"something else")
    with pytest.raises(ConflictError, match="damaged"):
        share.add_image(tmp_path, "trainer:1", entry)
    assert blobs(tmp_path) == []


def test_nothing_stays_of_an_image_whose_parts_cannot_all_be_copied(tmp_path: Path) -> None:
    """As on a full disk: a folder is in the way of the second part."""
    part, second = sent(tmp_path), hashlib.sha256(b"second").hexdigest()
    part.write_bytes(CONTENT)
    part.with_name(second).write_bytes(b"second")
    (tmp_path / "images" / "blobs" / f".{second}").mkdir(parents=True)
    with pytest.raises(OSError, match=second):
        share.add_image(tmp_path, "trainer:1", ImageEntry("x", DIGEST, (second,), 1, 0.0, "ann"))
    assert blobs(tmp_path) == [f".{second}"]


def test_a_part_that_another_image_needs_stays(tmp_path: Path) -> None:
    sent(tmp_path).write_bytes(CONTENT)
    share.add_image(tmp_path, "trainer:1", ENTRY)
    bad = hashlib.sha256(b"bad").hexdigest()
    sent_bad = tmp_path / share.incoming("ann") / "blobs" / bad
    sent_bad.write_bytes(b"something else")
    with pytest.raises(ConflictError, match="damaged"):
        share.add_image(tmp_path, "trainer:2", ImageEntry("x", bad, (DIGEST,), 1, 0.0, "ann"))
    assert blobs(tmp_path) == [DIGEST]


def blobs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "images" / "blobs").iterdir())
