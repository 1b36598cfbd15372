"""``python -m master.monitor.folder_sizes``: measure folders, named as a JSON list on stdin; answer as JSON on stdout.

A process of its own at the lowest priority: a walk through millions of files must not delay the monitor.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress

from grass.model.policy import FILES, SPACE
from grass.wire.codec import Form, encode

FOLDERS: Form[list[str]] = Form(list[str])
SIZES: Form[dict[str, dict[str, int]]] = Form(dict[str, dict[str, int]])
"""Folder → what is in it."""


def size(folder: str) -> dict[str, int]:
    """Return the space on the disk, in bytes, and the number of all files and folders in ``folder``; or of the file.

    Links are not followed. What goes meanwhile, or may not be read, is left out.
    """
    space = count = 0
    folders: list[str] = []
    with suppress(OSError):
        status = os.lstat(folder)
        if stat.S_ISDIR(status.st_mode):
            folders = [folder]
        elif stat.S_ISREG(status.st_mode):
            space, count = status.st_blocks * 512, 1
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    space += entry.stat(follow_symlinks=False).st_blocks * 512
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return {SPACE: space, FILES: count}


if __name__ == "__main__":
    os.nice(19)
    sys.stdout.write(encode({folder: size(folder) for folder in FOLDERS.decode(sys.stdin.read())}))
