"""Ids of jobs that clients choose. Who has the id of a job has its folder in the share, so an id is used once.

Used by ``job_changes`` and ``jobs``.
"""

from __future__ import annotations

import os

from grass.errors import ConflictError
from grass.files.paths import JOBS
from grass.wire.log_block import DELETED
from master.api.call import Call


def check_unused(call: Call, job_id: str) -> None:
    """Raise ConflictError for the id of a deleted job whose files are still there."""
    config = call.api.config
    left = (config.data_dir / JOBS / job_id, config.logs_dir / job_id, config.logs_dir / f"{DELETED}{job_id}")
    if any(map(os.path.lexists, left)) and call.api.store.run(job_id) is None:
        raise ConflictError(f"job id {job_id}: taken by a job that was deleted; choose another id")


def check_own(call: Call, job_id: str) -> None:
    """Raise ConflictError unless the job that was submitted before is the caller's."""
    known = call.api.store.run(job_id)
    if known is not None and known.user != call.user:
        raise ConflictError(f"job id {job_id}: taken by another user's job; choose another id")
