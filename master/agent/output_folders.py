"""The folders of jobs in the share (GRASS_OUTPUT). Used by ``loop`` only, around its commits."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from grass.config import ClusterConfig
from grass.system.entropy import request_id

log = logging.getLogger("grass.master-agent")

_NEXT = ".next-"


def output_mode(config: ClusterConfig) -> int | None:
    """Return the mode of the folders: tasks may run as other users than the master-agent."""
    if config.share is None:  # inside the cluster's folder, which other users cannot enter
        return 0o777
    return 0o775 if config.master.node_policy.isolate else None  # accounts of users belong to the group of the daemons


class OutputFolders:
    """Makes and removes the folders. ``parent``: ``jobs`` in the share. ``mode``: of each; None: the usual one.

    The folder of the next job is made in advance, because making one takes several times as long as renaming one, and a
    job starts only after it has its folder.
    """

    def __init__(self, parent: Path, mode: int | None) -> None:
        self._parent = parent
        self._mode = mode
        self._next: Path | None = None
        """Made in advance. No task can foresee its name, and put a link there whose target would be changed."""

    def make(self, job_id: str) -> None:
        """Make the folder of a job. The job runs even if that fails."""
        ahead, self._next = self._next, None
        if ahead is not None:
            try:
                ahead.rename(self._parent / job_id)
            except OSError:  # somebody removed it, or the job has a folder with files
                pass
            else:
                return
        try:
            self._make(self._parent / job_id)
        except OSError as error:
            log.error("job %s: its folder in the share cannot be made (%s); the job runs without it", job_id, error)

    def make_next(self) -> None:
        """Make a folder in advance, if there is none."""
        if self._next is None:
            with suppress(OSError):
                ahead = self._parent / f"{_NEXT}{request_id()}"
                self._make(ahead)
                self._next = ahead

    def remove_left(self) -> None:
        """Remove what an earlier master-agent made in advance."""
        for folder in self._parent.glob(f"{_NEXT}*"):
            with suppress(OSError):
                folder.rmdir()

    def remove(self, job_id: str) -> None:
        """Remove the folder. A folder with files of the job stays."""
        with suppress(OSError):
            (self._parent / job_id).rmdir()

    def _make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self._mode is not None:
            folder.chmod(self._mode)
