"""Calls for usage, histories, own figures and shares. A part of ``Client``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grass.api.requests import Requests, path_of, quoted

if TYPE_CHECKING:
    from grass.api.results import Results
    from grass.wire.result_views import MediaView
    from grass.wire.usage_views import ClusterUsageView, JobMetricsView, JobUsageView, NodeUsageView, TaskUsageView
    from grass.wire.user_views import FairSharesView


class FigureCalls(Requests):
    """What nodes, jobs and users use."""

    def usage(self, step: float = 2, since: float | None = None) -> ClusterUsageView:
        """Return capacity against use over time, as curves: point ``i`` of a curve is at ``start + i * step``.

        ``step``: 2 (kept for 15 minutes), 60 (a day) or 900 (31 days) seconds. ``since``: wall seconds. Raises
        InputError for another step.
        """
        from grass.wire.usage_views import CLUSTER_USAGE

        return self._get("/v1/usage", CLUSTER_USAGE, step=step, since=since)

    def node_usage(self, node: str, step: float = 2, since: float | None = None) -> NodeUsageView:
        """Return what a node uses now, and its history as ``usage`` does. ``step``, ``since``: seconds, as of
        ``usage``. Raises NotFoundError."""
        from grass.wire.usage_views import NODE_USAGE

        return self._get(path_of("nodes", node, "usage"), NODE_USAGE, step=step, since=since)

    def job_usage(
        self, job: str, first: int | None = None, step: float = 2, since: float | None = None
    ) -> JobUsageView:
        """Return what a job used so far, in all and by task, and the history of all its tasks together. Raises
        NotFoundError.

        ``first``: only so many tasks, those with most CPU time first. ``step``, ``since``: seconds, as of ``usage``.
        Units are those of ``grass.wire.usage``.
        """
        from grass.wire.usage_views import JOB_USAGE

        return self._get(path_of("jobs", job, "usage"), JOB_USAGE, first=first, step=step, since=since)

    def task_usage(self, job: str, task: str, step: float = 2, since: float | None = None) -> TaskUsageView:
        """Return what a task uses now, and its history. ``step``, ``since``: seconds, as of ``usage``. Raises
        NotFoundError."""
        from grass.wire.usage_views import TASK_USAGE

        path = path_of("jobs", job, "tasks", quoted("task", task), "usage")
        return self._get(path, TASK_USAGE, step=step, since=since)

    def job_metrics(self, job: str) -> JobMetricsView:
        """Return what tasks reported of themselves, as curves. Raises NotFoundError."""
        from grass.wire.usage_views import JOB_METRICS

        return self._get(path_of("jobs", job, "metrics"), JOB_METRICS)

    def media(self, job: str, task: str | None = None) -> MediaView:
        """Return texts, pictures and tables that tasks of a job reported with ``grass.report``, as ``media``: each has
        ``task``, ``name``, ``step``, ``kind``, and ``text`` or ``file``. Raises NotFoundError.

        ``task``: only those of this task. ``pull(each.file)`` fetches a file. ``troubles``: what could not be kept.
        """
        from grass.wire.result_views import MEDIA_VIEW

        return self._get(path_of("jobs", job, "media"), MEDIA_VIEW, task=task)

    def _results(self, jobs: Sequence[str]) -> Results:
        from grass.api.results import Results
        from grass.wire.result_views import RESULTS

        return Results([self._get(path_of("jobs", job, "results"), RESULTS) for job in jobs])

    def shares(self) -> FairSharesView:
        """Return who has how much of the cluster, and who is served next. Raises UnreachableError.

        Shares are fractions of the whole cluster; ``hours`` are hours of it.
        """
        from grass.wire.user_views import FAIR_SHARES

        return self._get("/v1/shares", FAIR_SHARES)
