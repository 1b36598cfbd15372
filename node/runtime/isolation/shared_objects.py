"""What tasks of a job share in memory on a node: segments, queues and semaphores, and the files in /dev/shm.

All of it goes when no task of the job is left here. While one is, segments go with the attempt whose process made them.
The rest of an attempt's may stay for the others. It is no longer counted for anybody, so all together may have no more
than the limits of memory of those attempts that ran here at the same time.

Where a component keeps its memory (``keep: shm``), all of it stays until no task is kept any more, at most ``LONGEST``
without an attempt. The view of a job goes with the folder of its attempts, so a mark keeps that folder. Used by
``tasks``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from contextlib import suppress

from grass.model.key_text import job_of
from grass.system import clock
from node.runtime import system_v
from node.runtime.isolation import processes, visible_files
from node.runtime.isolation.mount_namespaces import MountNamespaces
from node.runtime.isolation.privilege import raised
from node.runtime.isolation.processes import Namespaces
from node.runtime.kept_memory import LONGEST, is_of, task_of
from node.runtime.spawn import NOT_EXECUTABLE, CannotStartError

FILES = "/dev/shm"
MARK = ".kept"
"""Name of a file in the folder of a job's attempts."""
_PAGES = "/proc/sys/kernel/shmall"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class SharedObjects:
    """Limits and removes them. ``namespaces``: of the node's jobs. ``most``: memory of a task that asks for none."""

    def __init__(self, namespaces: MountNamespaces, most: int, attempts: str) -> None:
        """``attempts``: folder of the folders of jobs with their attempts."""
        self._namespaces = namespaces
        self._attempts = attempts
        self._kept: dict[str, float] = {}
        """Task whose memory is kept → until when, in steady seconds."""
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

    def end(self, key: str, pids: Collection[int], *, keep: bool = False) -> None:
        """Remove what an ended attempt left, or keep it. ``pids``: processes of it."""
        job_id = job_of(key)
        if keep:
            self._keep(key)
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
            elif not self._keeps(job_id) and _is_any_left(namespaces):
                self._namespaces.forget(job_id)  # no process is in it, so it goes with all that is in it

    def let_go(self, tasks: Collection[str]) -> None:
        """Keep nothing of these tasks any more. What other tasks of their jobs keep is in the same place, and stays."""
        gone = [task for task in tasks if self._kept.pop(task, None) is not None]
        for job_id in {job_of(task) for task in gone}:
            if self._keeps(job_id):
                continue
            if job_id not in self._running:
                self._namespaces.forget(job_id)
            with suppress(OSError):
                os.unlink(self._mark(job_id))  # noqa: PTH108
                os.rmdir(f"{self._attempts}/{job_id}")  # noqa: PTH106

    def drop(self, launch: str) -> None:
        """Keep nothing of a component any more."""
        self.let_go([task for task in self._kept if is_of(task, launch)])

    def expire(self) -> None:
        """Keep nothing for too long."""
        if self._kept:
            alive, now = {task_of(key) for keys in self._running.values() for key in keys}, clock.steady()
            self.let_go([task for task, until in self._kept.items() if until < now and task not in alive])

    def _keeps(self, job_id: str) -> bool:
        return any(job_of(task) == job_id for task in self._kept)

    def _keep(self, key: str) -> None:
        self._kept[task_of(key)] = clock.steady() + LONGEST
        with suppress(OSError), open(self._mark(job_of(key)), "x"):  # noqa: PTH123
            pass

    def _mark(self, job_id: str) -> str:
        return f"{self._attempts}/{job_id}/{MARK}"


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
