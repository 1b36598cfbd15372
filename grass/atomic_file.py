"""Atomic replacement of files: a reader sees the old or the new content, also after a crash of the writer."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: str | bytes, *, mode: int = 0o600, sync: bool = False) -> None:
    """Write a draft beside ``path`` and rename it. ``sync``: the content is durable when this returns.

    The file has ``mode`` from its creation on, whatever the umask. For one writer at a time. Raises OSError.
    """
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content.encode() if isinstance(content, str) else content)
        if sync:
            file.flush()
            os.fsync(descriptor)
    draft.replace(path)
