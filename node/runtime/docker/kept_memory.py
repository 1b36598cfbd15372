"""What containers have in /dev/shm, where it is kept for the next attempt of their task (``keep: shm``).

A folder in the machine's /dev/shm is mounted there, and stays when the container goes. What a container writes counts
for its memory while it runs. Used by this package.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

from grass.node_config import NodeHome
from grass.system import clock
from node.runtime.kept_memory import LONGEST, is_of, task_of
from node.runtime.segment_files import FOLDER

log = logging.getLogger(__name__)


def folder_of(config: NodeHome, key: str) -> Path:
    """Return the folder of the task of an attempt."""
    return _root(config) / task_of(key)


class KeptFolders:
    """The folders, one for each task. ``make`` may be called in any thread."""

    def __init__(self, config: NodeHome) -> None:
        self._root = _root(config)
        self._until = dict.fromkeys(self._tasks(), clock.steady() + LONGEST)

    def __bool__(self) -> bool:
        return bool(self._until)

    def make(self, key: str, most: int) -> None:
        """Make the folder, or empty it if it has more than ``most`` bytes. Raises OSError."""
        folder = self._root / task_of(key)
        self._root.mkdir(mode=0o700, exist_ok=True)
        found = self._root.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "belongs to another program or user", str(self._root))
        if (size := _size(folder)) > most:
            log.warning("task %s: %d bytes in /dev/shm are not kept: its memory is %d bytes", task_of(key), size, most)
            _remove(folder)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)  # sticky, like /dev/shm

    def began(self, key: str) -> None:
        self._until[task_of(key)] = clock.steady() + LONGEST

    def let_go(self, tasks: Iterable[str]) -> None:
        """Remove the folders of these tasks, whose containers have ended."""
        for task in tasks:
            if self._until.pop(task, None) is not None:
                _remove(self._root / task)
                for empty in ((self._root / task).parent, self._root):
                    _remove_empty(empty)

    def drop(self, launch: str) -> None:
        self.let_go([task for task in self._until if is_of(task, launch)])

    def expire(self, running: Collection[str]) -> None:
        """Remove what was kept for too long. ``running``: keys of attempts."""
        alive, now = set(map(task_of, running)), clock.steady()
        self._until.update(dict.fromkeys(alive & self._until.keys(), now + LONGEST))
        self.let_go([task for task, until in self._until.items() if until < now])

    def _tasks(self) -> list[str]:
        return [f"{folder.parent.name}/{folder.name}" for folder in self._root.glob("*/*")]


def sweep(config: NodeHome) -> None:
    """Remove all folders of a node."""
    if os.path.lexists(_root(config)):
        _remove(_root(config))


def _root(config: NodeHome) -> Path:
    return Path(FOLDER, f"grass.{config.name}.{config.node.name}")


def _size(folder: Path) -> int:
    return sum(os.lstat(each).st_blocks * 512 for each in folder.rglob("*")) if folder.is_dir() else 0


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, onerror=_not_removed)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # it has other folders, or is gone
        return


def _not_removed(_: object, path: str, problem: object) -> None:
    if os.path.lexists(path):
        log.warning("%s: cannot be removed, so this memory stays until the next boot: %s", path, problem)
