"""Calls about schedules that exist. A part of ``ApiClient``, which starts them."""

from __future__ import annotations

from grass.api.requests import Requests, path_of
from grass.api.transport import View
from grass.entropy import operation_id
from grass.errors import NotFoundError


class ScheduleCalls(Requests):
    """Batches of jobs, and cron rules."""

    def schedules(self) -> list[View]:
        """Return all schedules. Times are seconds since the epoch. Raises UnreachableError."""
        found: list[View] = self._get("/v1/schedules")["schedules"]
        return found

    def schedule(self, name: str) -> View:
        """Return one schedule, with the state of each of its runs. Raises NotFoundError."""
        return self._get(path_of("schedules", name))

    def stop_schedule(self, name: str) -> View:
        """Stop a schedule, so that it starts nothing more. Jobs of a batch are stopped; the run of a cron rule
        continues. Raises NotFoundError."""
        return self._post(path_of("schedules", name, "stop"), {})

    def pause_schedule(self, name: str) -> View:
        """Let a cron rule start nothing until ``resume_schedule``. Raises ConflictError for a batch, NotFoundError."""
        return self._post(path_of("schedules", name, "pause"), {"id": operation_id()})

    def resume_schedule(self, name: str) -> View:
        """Let a paused cron rule go on. Times that passed meanwhile are left out. Raises ConflictError,
        NotFoundError."""
        return self._post(path_of("schedules", name, "resume"), {"id": operation_id()})

    def run_schedule(self, name: str) -> View:
        """Start the job of a cron rule now, or the jobs of a finished batch again. Raises ConflictError,
        NotFoundError."""
        return self._post(path_of("schedules", name, "run"), {"id": operation_id()})

    def delete_schedule(self, name: str) -> View:
        """Remove a schedule, but not its jobs. Raises ConflictError for a batch with active jobs, NotFoundError."""
        view = self.schedule(name)
        try:
            deleted: View = self._delete(path_of("schedules", name))
        except NotFoundError:
            return view  # an earlier attempt of this call, or another user, deleted it
        return deleted
