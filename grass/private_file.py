"""Files that only their owner may read, replaced whole: keys, passwords, who may be trusted."""

from __future__ import annotations

from pathlib import Path

from grass.atomic_file import replace_file


def write_private(path: Path, text: str) -> None:
    """Mode 0600 from its first moment, durable, and by rename: a reader sees the old file or the new one."""
    replace_file(path, text, mode=0o600, sync=True)
