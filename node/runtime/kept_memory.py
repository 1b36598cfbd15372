"""What ended attempts left in /dev/shm for the next one of their task (``keep: shm``), where users are not isolated.

It goes when the task is not wanted here any more, when its component leaves the node, after ``LONGEST`` without an
attempt, and when the shepherd ends. A file has the names, for the next shepherd. Used by ``endings``,
``shared_memory`` and ``shepherd``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from grass.system import clock
from grass.system.atomic_file import replace_file
from node.runtime.segment_files import FOLDER, unmapped

LONGEST = 3600.0
"""Seconds for which memory is kept without an attempt: the master may not say that the task went elsewhere."""

log = logging.getLogger(__name__)


def task_of(key: str) -> str:
    """Return ``<job id>/<component>.<index>`` of the key of an attempt."""
    return key.rpartition("/")[0]


def is_of(task: str, launch: str) -> bool:
    """Return whether a task is one of a launch."""
    return task.rpartition(".")[0] == launch


class KeptMemory:
    """The files that are kept, by task. For one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, dict[str, int]] = _read(path)
        """Task → name of a file → its inode: another program may make one of the same name later."""
        self._until = dict.fromkeys(self._files, clock.steady() + LONGEST)

    def __bool__(self) -> bool:
        return bool(self._files)

    def keep(self, key: str, names: Collection[str], most: int) -> bool:
        """Keep files of an attempt that ended. Return whether they are kept: all of its task have at most ``most``
        bytes."""
        task = task_of(key)
        files = {**self._files.get(task, {}), **{name: inode for name in names if (inode := _inode(name))}}
        size = sum(map(_size, files))
        if size > most:
            log.warning("task %s: %d bytes in /dev/shm are not kept: its memory is %d bytes", task, size, most)
            self.let_go([task])
            return False
        if files:
            self._files[task], self._until[task] = files, clock.steady() + LONGEST
            self._write()
        return bool(files)

    def let_go(self, tasks: Iterable[str]) -> None:
        """Remove what is kept of these tasks, unless a process of another program maps it."""
        gone = [files for task in tasks if (files := self._files.pop(task, None)) is not None]
        names = {name for files in gone for name, inode in files.items() if _inode(name) == inode}
        for name in unmapped(names):
            with suppress(OSError):
                os.unlink(f"{FOLDER}/{name}")  # noqa: PTH108
        if gone:
            self._until = {task: until for task, until in self._until.items() if task in self._files}
            self._write()

    def drop(self, launch: str) -> None:
        """Remove what is kept of a component."""
        self.let_go([task for task in self._files if is_of(task, launch)])

    def expire(self, running: Collection[str]) -> None:
        """Remove what was kept for too long. ``running``: keys of attempts."""
        alive, now = set(map(task_of, running)), clock.steady()
        self.let_go([task for task, until in self._until.items() if until < now and task not in alive])

    def end(self) -> None:
        """Remove everything."""
        self.let_go(list(self._files))

    def _write(self) -> None:
        try:
            replace_file(self._path, json.dumps(self._files))
        except OSError as error:  # the disk is full: the next shepherd leaves this memory alone
            log.warning("cannot write %s: %s", self._path, error)


def _read(path: Path) -> dict[str, dict[str, int]]:
    try:
        found = json.loads(path.read_bytes())
        return {str(task): {str(name): int(inode) for name, inode in files.items()} for task, files in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _inode(name: str) -> int:
    with suppress(OSError):
        return os.lstat(f"{FOLDER}/{name}").st_ino
    return 0


def _size(name: str) -> int:
    with suppress(OSError):
        return os.lstat(f"{FOLDER}/{name}").st_blocks * 512
    return 0
