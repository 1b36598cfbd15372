"""Checks the dependencies of a job on other jobs (``after``) at submission: unknown jobs, and cycles. Pure.

Used by ``plan``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grass.errors import ManifestError, Problem
from grass.manifest.after import after_path
from grass.model.job import Job

Lookup = Callable[[str], "tuple[Job, bool] | None"]
"""Name or id → the job's specification and whether it has ended; None: there is no such job."""


def check_after(job: Job, find: Lookup) -> list[str]:
    """Return warnings about jobs that do not exist yet. Raises ManifestError for a cycle, or tasks without partners."""
    warnings = []
    for after in job.after:
        if find(after.job) is None and not after.past:
            warnings.append(f"after: job {after.job} does not exist yet; this job waits for it")
    if problems := list(_unequal(job, find)):
        raise ManifestError(problems)
    if cycle := find_cycle(job, find):
        raise ManifestError([Problem("after", f"jobs wait for each other in a cycle: {' → '.join(cycle)}")])
    return warnings


def _unequal(job: Job, find: Lookup) -> Iterator[Problem]:
    """Yield a problem for each job whose tasks cannot be paired with those of this one."""
    for number, after in enumerate(job.after):
        known = find(after.job) if after.same_tasks else None
        if known is None:
            continue
        path, others = after_path(job.after, number), list(known[0].components.values())
        if len(others) > 1:
            yield Problem(path, f"job {after.job} has {len(others)} components; `same` needs a job with one")
        elif others[0].replicas != job.task_count:
            counts = f"{after.job} has {others[0].replicas:,}, this one {job.task_count:,}"
            yield Problem(path, f"both jobs must have as many tasks: {counts}")


def find_cycle(job: Job, find: Lookup) -> list[str]:
    """Return the names from ``job`` back to itself along ``after`` of active jobs; empty: there is no cycle."""
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
