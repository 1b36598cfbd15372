"""Jobs on jobs, at submission: what is known of the others. A circle could never begin; a name may still come."""

from __future__ import annotations

from collections.abc import Callable

from grass.errors import ManifestError, Problem
from grass.model.job import Job

Lookup = Callable[[str], "tuple[Job, bool] | None"]
"""Name or id → the job's specification and whether it has ended; None: there is no such job."""


def check_after(job: Job, find: Lookup) -> list[str]:
    """Warnings about jobs that are not there yet. Raises ManifestError for a circle."""
    warnings = []
    for after in job.after:
        if find(after.job) is None:
            warnings.append(f"after: there is no job {after.job} yet; it waits for one")
    if circle := find_circle(job, find):
        raise ManifestError([Problem("after", f"goes in a circle, so none could ever begin: {' → '.join(circle)}")])
    return warnings


def find_circle(job: Job, find: Lookup) -> list[str]:
    """The names from ``job`` back to itself along ``after`` of jobs that have not ended; empty when there is no way."""
    seen: set[str] = set()
    pending = [(after.job, [job.name]) for after in job.after]
    while pending:
        name, trail = pending.pop()
        if name == job.name:
            return [*trail, name]
        known = None if name in seen else find(name)
        seen.add(name)
        if known is not None and not known[1]:
            pending.extend((after.job, [*trail, known[0].name]) for after in known[0].after)
    return []
