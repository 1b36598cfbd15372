"""Atomic replacement of files: a reader sees the old or the new content, also after a crash of the writer."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from grass.entropy import request_id


def replace_file(
    path: Path, content: str | bytes, *, mode: int = 0o600, sync: bool = False, several_writers: bool = False
) -> None:
    """Write a draft beside ``path`` and rename it. ``sync``: the content is durable when this returns.

    ``several_writers``: others may call this for the same file at the same time. Each then has a draft of its own; a
    writer that is killed leaves its draft behind. The file has ``mode`` from its creation on, whatever the umask.
    Raises OSError.
    """
    draft = path.with_name(f"{path.name}.{request_id() if several_writers else 'new'}")
    exclusive = os.O_EXCL if several_writers else os.O_TRUNC
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | exclusive, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(descriptor)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
