"""What tasks of a job share in memory on a node: segments, queues and semaphores, and the files in /dev/shm.

All of it goes when no task of the job is left here. While one is, segments go with the attempt whose process made them.
The rest of an attempt's may stay for the others. It is no longer counted for anybody, so all together may have no more
than the limits of memory of those attempts that ran here at the same time. Used by ``tasks``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from contextlib import suppress

from grass.model.key_text import job_of
from node.runtime import system_v
from node.runtime.isolation import processes, visible_files
from node.runtime.isolation.mount_namespaces import MountNamespaces
from node.runtime.isolation.privilege import raised
from node.runtime.isolation.processes import Namespaces
from node.runtime.spawn import NOT_EXECUTABLE, CannotStartError

FILES = "/dev/shm"
_PAGES = "/proc/sys/kernel/shmall"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class SharedObjects:
    """Limits and removes them. ``namespaces``: of the node's jobs. ``most``: memory of a task that asks for none."""

    def __init__(self, namespaces: MountNamespaces, most: int) -> None:
        self._namespaces = namespaces
        self._most = most
        self._running: dict[str, dict[str, int]] = {}
        """Job → its attempts here that have not ended → their limits of memory."""
        self._limited: dict[str, tuple[Namespaces, int]] = {}
        """Job → the namespaces that have a limit, and that limit."""

    def add(self, key: str, memory: int) -> None:
        """Count an attempt. ``memory``: its limit."""
        self._running.setdefault(job_of(key), {})[key] = memory

    def limit(self, key: str, namespaces: Namespaces) -> None:
        """Limit what is in these namespaces, before an attempt starts there that was added. Raises CannotStartError."""
        job_id = job_of(key)
        wanted = sum(self._running[job_id].values())
        limited, size = self._limited.get(job_id, (None, self._most))
        if wanted <= size if limited == namespaces else wanted >= self._most:
            return
        try:
            with raised(), processes.inside(namespaces):
                _limit(wanted)
        except OSError as error:
            raise CannotStartError(NOT_EXECUTABLE, f"cannot limit its shared memory: {error}") from error
        self._limited[job_id] = (namespaces, wanted)

    def end(self, key: str, pids: Collection[int]) -> None:
        """Remove what an ended attempt left. ``pids``: processes of it."""
        job_id = job_of(key)
        others = self._running.get(job_id, {})
        others.pop(key, None)
        if not others:
            self._running.pop(job_id, None)
            self._limited.pop(job_id, None)
        namespaces = self._namespaces.kept(job_id)
        if namespaces is None:
            return
        with suppress(OSError), raised():
            if others:
                with processes.inside(namespaces):
                    _remove(pids)
            elif _is_any_left(namespaces):
                self._namespaces.forget(job_id)  # no process is in it, so it goes with all that is in it


def _limit(size: int) -> None:
    try:
        processes.limit_files(FILES, size)
    except OSError as error:
        if error.errno != errno.EINVAL:  # more is in use, from before this shepherd began
            raise
    with open(_PAGES, "w") as file:  # noqa: PTH123 (the hot path)
        file.write(str(size // _PAGE))


def _is_any_left(namespaces: Namespaces) -> bool:
    with processes.inside(namespaces):
        return system_v.any_left() or any(_has_files(folder) for folder in (FILES, visible_files.QUEUES))


def _has_files(folder: str) -> bool:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        return next(entries, None) is not None
    return False


def _remove(creators: Collection[int]) -> None:
    for segment in system_v.segments():
        if segment.creator in creators and not segment.attached:
            system_v.remove(segment)
