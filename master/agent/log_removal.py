"""Removes the logs of deleted jobs in a thread: a job may have 100,000 files, and a share on a network may be slow.

Used by ``loop``, after its commits. Must not delay a decision.
"""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from grass.wire.log_block import DELETED

KEPT = 600.0
"""Seconds after a removal in which the collector knows of it."""
_REMOVED = ".removed-"


class LogRemoval:
    """The thread that removes logs.

    ``folder``: logs of all jobs. The thread starts with the first removal and goes on to the end of the process.
    """

    def __init__(self, folder: Path, steady: Callable[[], float], kept: float = KEPT) -> None:
        self._folder = folder
        self._steady = steady
        self._kept = kept
        self._queue: SimpleQueue[str] = SimpleQueue()
        """Names in the folder, not paths: a mark is kept for minutes, and a path takes a KiB."""
        self._thread = threading.Thread(target=self._run, name="log-removal", daemon=True)

    def remove(self, job_id: str) -> None:
        """Hide the logs of a job at once, and remove them soon. What cannot be removed stays.

        The collector makes the folder of a job before it looks for the mark, and here it is the other way round: one
        of both sees what the other made.
        """
        removed, mark = f"{_REMOVED}{job_id}", f"{DELETED}{job_id}"
        with suppress(OSError):  # it is there, or the disk is full, or there are no logs at all
            (self._folder / mark).mkdir()
            self._put(mark)
        try:
            (self._folder / job_id).rename(self._folder / removed)
        except FileNotFoundError:
            pass  # no logs have arrived
        except OSError:  # there are logs that came late, beside those that are being removed
            self._put(job_id)
        else:
            self._put(removed)

    def remove_left(self) -> None:
        """Remove what an earlier master-agent did not get to."""
        for prefix in (_REMOVED, DELETED):
            for path in self._folder.glob(f"{prefix}*"):
                self._put(path.name)

    def _put(self, name: str) -> None:
        self._queue.put(name)
        if self._thread.ident is None:
            self._thread.start()

    def _run(self) -> None:
        marks: deque[tuple[float, str]] = deque()
        while True:
            try:
                name = self._queue.get(timeout=max(0.0, marks[0][0] - self._steady()) if marks else None)
            except Empty:
                self._forget(marks.popleft()[1])
                continue
            if name.startswith(DELETED):
                marks.append((self._steady() + self._kept, name))
            else:
                shutil.rmtree(self._folder / name, ignore_errors=True)

    def _forget(self, mark: str) -> None:
        """Remove a mark, and what the collector wrote to a folder that it had just opened when it was removed."""
        shutil.rmtree(self._folder / f"{_REMOVED}{mark.removeprefix(DELETED)}", ignore_errors=True)
        with suppress(OSError):
            (self._folder / mark).rmdir()
