"""Removes the logs of deleted jobs in a thread: a job may have 100,000 files, and a share on a network may be slow.

Used by ``loop``, after its commits. Must not delay a decision.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from queue import SimpleQueue

_REMOVED = ".removed-"


class LogRemoval:
    """``folder``: logs of all jobs. The thread starts with the first removal and goes on to the end of the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._queue: SimpleQueue[Path] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log-removal", daemon=True)

    def remove(self, job_id: str) -> None:
        """Hide the logs of a job at once, and remove them soon. What cannot be removed stays."""
        logs, removed = self._folder / job_id, self._folder / f"{_REMOVED}{job_id}"
        try:
            logs.rename(removed)
        except FileNotFoundError:
            return
        except OSError:  # there are logs that came late, beside those that are being removed
            removed = logs
        self._put(removed)

    def remove_left(self) -> None:
        """Remove what an earlier master-agent did not get to."""
        for path in self._folder.glob(f"{_REMOVED}*"):
            self._put(path)

    def _put(self, path: Path) -> None:
        self._queue.put(path)
        if self._thread.ident is None:
            self._thread.start()

    def _run(self) -> None:
        while True:
            shutil.rmtree(self._queue.get(), ignore_errors=True)
