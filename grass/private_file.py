"""Files that only their owner may read, replaced whole: keys, passwords, who may be trusted."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Mode 0600 from its first moment, durable, and by rename: a reader sees the old file or the new one."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
