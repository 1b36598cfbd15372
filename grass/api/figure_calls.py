"""Calls for usage, histories, own figures and shares. A part of ``Client``."""

from __future__ import annotations

from grass.api.requests import Requests, View, path_of, quoted


class FigureCalls(Requests):
    """What nodes, jobs and users use."""

    def usage(self, step: float = 2, since: float | None = None) -> View:
        """Return capacity against use over time: ``{"history": curves}``.

        *curves* are ``{"start", "step", "curves": {name: [value or None]}}``: point ``i`` is at ``start + i * step``.
        ``step``: 2 (kept for 15 minutes), 60 (a day) or 900 (31 days) seconds. ``since``: wall seconds.
        """
        return self._get("/v1/usage", step=step, since=since)

    def node_usage(self, node: str, step: float = 2, since: float | None = None) -> View:
        """Return what a node uses: ``{"node", "at", "now", "tasks", "history": curves as of usage}``."""
        return self._get(path_of("nodes", node, "usage"), step=step, since=since)

    def job_usage(self, job: str, first: int | None = None) -> View:
        """Return what a job used so far: ``{"id", "name", "totals", "tasks": [{"task", "totals", "now"}], "count"}``.

        ``first``: only so many tasks, those with most CPU time first. Units are those of ``grass.wire.usage``.
        """
        return self._get(path_of("jobs", job, "usage"), first=first)

    def task_usage(self, job: str, task: str, step: float = 2, since: float | None = None) -> View:
        """Return what a task uses: ``{"id", "task": as in job_usage, "history": curves as of usage}``."""
        return self._get(path_of("jobs", job, "tasks", quoted("task", task), "usage"), step=step, since=since)

    def job_metrics(self, job: str) -> View:
        """Return what tasks reported of themselves: ``{"id", "name", "curves": [{"task", "name", "steps", "values",
        "times", "every"}], "dropped"}``."""
        return self._get(path_of("jobs", job, "metrics"))

    def shares(self) -> View:
        """Return who has how much of the cluster, and who is served next.

        ``{"users": [{"user", "share", "past", "hours", "running", "waiting", "allocated"}], "queue": [{"job", "user",
        "priority", "submitted", "why"}]}``.
        """
        return self._get("/v1/shares")
