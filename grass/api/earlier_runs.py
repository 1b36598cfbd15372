"""The earlier runs to which a rerun of failed tasks belongs: their output is part of its own.

Used by ``output_files`` and ``grass.dashboard``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET

from grass.errors import NotFoundError

if TYPE_CHECKING:
    from grass.wire.job_details import JobDetails

MOST_RUNS = 20


def earlier_runs(job: JobDetails, find: Callable[[str], JobDetails]) -> list[str]:
    """Return the ids of the runs in which tasks succeeded that this one did not start again, the newest first.

    ``find``: returns a job by its id, or raises NotFoundError. Of a run that was deleted, the id is still known.
    """
    found: list[str] = []
    while job.rerun_of is not None and job.specification is not UNSET and job.specification.carried:
        found.append(job.rerun_of)
        if len(found) == MOST_RUNS:
            break
        try:
            job = find(job.rerun_of)
        except NotFoundError:
            break
    return found
