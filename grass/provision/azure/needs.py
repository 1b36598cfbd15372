"""Which tasks wait for machines, and what each needs, from what the cluster says of its jobs. Pure.

Used by ``provisioner`` for ``autoscaler``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from grass.azure.autoscale import Need
from grass.model.lifecycle import JobState, TaskState
from grass.model.reasons import ReasonCode

if TYPE_CHECKING:
    from grass.model.job import Job
    from grass.wire.job_views import JobView

WAITS = frozenset(
    {
        *(ReasonCode.NO_FREE_RESOURCES, ReasonCode.NO_NODES, ReasonCode.TOO_LARGE),
        *(ReasonCode.GANG, ReasonCode.BEHIND),
    }
)
"""Reasons that more machines may end."""


def waiting(jobs: Iterable[JobView], specification: Callable[[str], Job | None]) -> list[Need]:
    """``specification``: from the id of a job; None: it is being deleted."""
    found = []
    for job in jobs:
        if job.held is not None or job.state not in (JobState.QUEUED, JobState.RUNNING):
            continue
        lacking = {
            name: count
            for name, part in job.components.items()
            if (reason := part.reason or job.reason) is not None
            and reason.code in WAITS
            and (count := part.counts.get(TaskState.PENDING, 0))
        }
        spec = specification(job.id) if lacking else None
        if spec is not None:
            found += [
                Need(f"{name} of job {job.name}", spec.components[name].resources, count)
                for name, count in lacking.items()
                if name in spec.components
            ]
    return found
