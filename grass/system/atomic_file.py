"""Atomic replacement of files: a reader sees the old or the new content, also after a crash of the writer.

Used by ``grass`` and ``node``.
"""

from __future__ import annotations

import errno
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
        from grass.system.entropy import request_id  # loads OpenSSL, which the shepherd can do without

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
        if sync:
            sync_folder(path.parent)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in it durable: after a power cut, a rename may be lost although the content is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a network file system that knows no such thing
            raise
    finally:
        os.close(descriptor)
