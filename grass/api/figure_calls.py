"""Calls for usage, histories, own figures and shares. A part of ``ApiClient``."""

from __future__ import annotations

from grass.api.requests import Requests, path_of, quoted
from grass.api.transport import View


class FigureCalls(Requests):
    """What nodes, jobs and users use."""

    def usage(self, step: float = 2, since: float | None = None) -> View:
        """Return capacity against use over time, as curves: point ``i`` of a curve is at ``start + i * step``.

        ``step``: 2 (kept for 15 minutes), 60 (a day) or 900 (31 days) seconds. ``since``: wall seconds. Raises
        InputError for another step.
        """
        return self._get("/v1/usage", step=step, since=since)

    def node_usage(self, node: str, step: float = 2, since: float | None = None) -> View:
        """Return what a node uses now, and its history as ``usage`` does. ``step``, ``since``: seconds, as of
        ``usage``. Raises NotFoundError."""
        return self._get(path_of("nodes", node, "usage"), step=step, since=since)

    def job_usage(self, job: str, first: int | None = None, step: float = 2, since: float | None = None) -> View:
        """Return what a job used so far, in all and by task, and the history of all its tasks together. Raises
        NotFoundError.

        ``first``: only so many tasks, those with most CPU time first. ``step``, ``since``: seconds, as of ``usage``.
        Units are those of ``grass.wire.usage``.
        """
        return self._get(path_of("jobs", job, "usage"), first=first, step=step, since=since)

    def task_usage(self, job: str, task: str, step: float = 2, since: float | None = None) -> View:
        """Return what a task uses now, and its history. ``step``, ``since``: seconds, as of ``usage``. Raises
        NotFoundError."""
        return self._get(path_of("jobs", job, "tasks", quoted("task", task), "usage"), step=step, since=since)

    def job_metrics(self, job: str) -> View:
        """Return what tasks reported of themselves, as curves. Raises NotFoundError."""
        return self._get(path_of("jobs", job, "metrics"))

    def shares(self) -> View:
        """Return who has how much of the cluster, and who is served next. Raises UnreachableError.

        Shares are fractions of the whole cluster; ``hours`` are hours of it.
        """
        return self._get("/v1/shares")
