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
ENTRY = ImageEntry(f"sha256:{DIGEST}", DIGEST, (), len(CONTENT), 0.0)


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
        share.take_incoming(tmp_path, "ann", ENTRY)
        share.add_image(tmp_path, "trainer:1", ENTRY)
        held.write(b"another")
    blob = tmp_path / "images" / "blobs" / DIGEST
    assert blob.read_bytes() == CONTENT and not part.exists()
    assert sorted(path.name for path in blob.parent.iterdir()) == [DIGEST]


def test_a_link_is_no_part(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(CONTENT)
    sent(tmp_path).symlink_to(target)
    share.take_incoming(tmp_path, "ann", ENTRY)
    with pytest.raises(ConflictError, match="have not arrived"):
        share.add_image(tmp_path, "trainer:1", ENTRY)


def test_a_part_that_is_not_what_its_name_says_is_removed(tmp_path: Path) -> None:
    sent(tmp_path).write_bytes(b"other content")
    share.take_incoming(tmp_path, "ann", ENTRY)
    with pytest.raises(ConflictError, match="damaged"):
        share.add_image(tmp_path, "trainer:1", ENTRY)
    assert share.missing_blobs(tmp_path, [DIGEST]) == [DIGEST]
