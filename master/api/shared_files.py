"""Digests of the files of the share that a job's commands name. Used where jobs are submitted.

Used by ``job_changes`` and ``jobs``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grass.files.digests import digests
from grass.files.paths import JOBS, OWN
from grass.files.rights import DATA, refusal
from grass.manifest.code_files import shared_names
from grass.model.job import Job

_CLOSED = frozenset({JOBS, *OWN})


def with_shared_files(job: Job, share: Path, user: str = "") -> Job:
    """Return the job with the digests, beside those that its client found.

    Files of other jobs are left out, also where a link leads to them: their owners may not want to show them. ``user``:
    who may not read the files of others in ``data/``; empty: somebody who may.
    """

    def may_read(path: str) -> bool:
        first = path.partition("/")[0]
        return first not in _CLOSED and (not user or first != DATA or not refusal(user, path))

    names = shared_names(job)
    if not names:
        return job
    found = digests(share, names, may_read=may_read)
    return replace(job, files={**job.files, **{f"$GRASS_DATA/{name}": digest for name, digest in found.items()}})
