"""Files of jobs that this node must write before tasks start: what the disk refuses is written again later.

Used by the node-agent and its memberships, under the lock of the agent's turn. While files are missing, nothing starts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection

from grass.model.reasons import Reason, ReasonCode

log = logging.getLogger(__name__)


class LateFiles:
    def __init__(self) -> None:
        self._late: dict[tuple[str, str], Callable[[], None]] = {}
        """(Job id, file) → what writes it."""
        self._problem = ""

    def write(self, job_id: str, name: str, write: Callable[[], None]) -> None:
        """Call ``write``; if the disk refuses it, now and at each ``again`` until it succeeds. ``name``: of the file; a
        later write of the same file replaces an earlier one."""
        self._late[job_id, name] = write
        self._try(job_id, name)
        self._clear()

    def again(self) -> None:
        """Try to write what is missing."""
        for job_id, name in list(self._late):
            self._try(job_id, name)
        self._clear()

    def forget(self, job_ids: Collection[str]) -> None:
        self._late = {key: write for key, write in self._late.items() if key[0] not in job_ids}
        self._clear()

    def trouble(self) -> Reason | None:
        """Return why files are missing."""
        return Reason(ReasonCode.DISK, f"cannot write the files of jobs: {self._problem}") if self._late else None

    def _try(self, job_id: str, name: str) -> None:
        try:
            self._late[job_id, name]()
        except OSError as error:
            if not self._problem:
                log.error("job %s: cannot write %s (%s); no task starts here until it is written", job_id, name, error)
            self._problem = os.strerror(error.errno or 0).lower()
        else:
            del self._late[job_id, name]

    def _clear(self) -> None:
        if self._problem and not self._late:
            self._problem = ""
            log.info("the files of jobs are written; tasks start again")
