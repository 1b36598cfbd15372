"""Read the usage of tasks over time, as finely as it is still kept. Used by `grass report` and `grass top`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from grass.errors import NotFoundError
from grass.wire.usage_history import finest

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView
    from grass.wire.usage_views import Curves, JobUsageView


def read_histories(client: Client, job: JobView, usage: JobUsageView, now: float) -> dict[str, Curves]:
    """Return task → curves since the start of the job. ``usage``: the *job usage view* that names the tasks."""
    if job.started is None:
        return {}
    step = finest(now - job.started).step
    found = {}
    for each in usage.tasks:
        with suppress(NotFoundError):  # its history is not kept any more
            answer = client.task_usage(job.id, each.task, step=step, since=job.started)
            found[each.task] = answer.history
    return found
