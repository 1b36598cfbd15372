"""Atomic replacement of files: a reader sees the old or the new content, also after a crash of the writer."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def replace_file(
    path: Path, content: str | bytes, *, mode: int = 0o600, sync: bool = False, several_writers: bool = False
) -> None:
    """Write a draft beside ``path`` and rename it. ``sync``: the content is durable when this returns.

    ``several_writers``: others may call this for the same file at the same time. Each then has a draft of its own; a
    writer that is killed leaves its draft behind. The file has ``mode`` from its creation on, whatever the umask.
    Raises OSError.
    """
    suffix, begin = "new", os.O_TRUNC
    if several_writers:
        from grass.entropy import request_id  # loads OpenSSL, which the shepherd can do without

        suffix, begin = request_id(), os.O_EXCL
    draft = path.with_name(f"{path.name}.{suffix}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | begin, mode)
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
