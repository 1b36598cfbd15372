"""Digests of the files that a job's commands name, for `grass job diff`. Used where jobs are submitted.

Used by ``job_changes`` and ``jobs``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grass.files.digests import digests
from grass.files.paths import JOBS, OWN
from grass.files.rights import DATA, read_refusal
from grass.manifest.code_files import local_names, shared_names
from grass.model.job import Job

_CLOSED = frozenset({JOBS, *OWN})


def with_named_files(job: Job, share: Path, user: str = "") -> Job:
    """Return the job with the digests: of the share, and of the folder on this machine that its tasks start in.

    Files of other jobs are left out, also where a link leads to them: their owners may not want to show them. ``user``:
    who may not read the files of others in ``data/``; empty: somebody who may.
    """
    shared = {f"$GRASS_DATA/{name}": digest for name, digest in _of_share(job, share, user).items()}
    return replace(job, files={**_of_folder(job), **shared})


def _of_folder(job: Job) -> dict[str, str]:
    base = next(iter(job.components.values())).base
    return {} if base is None else digests(Path(base), local_names(job), folders=False)


def _of_share(job: Job, share: Path, user: str) -> dict[str, str]:

    def may_read(path: str) -> bool:
        first = path.partition("/")[0]
        return first not in _CLOSED and (not user or first != DATA or not read_refusal(user, path))

    return digests(share, shared_names(job), may_read=may_read)
