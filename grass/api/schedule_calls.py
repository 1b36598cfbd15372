"""Calls about schedules that exist. A part of ``Client``, which starts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grass.api.requests import Requests, path_of
from grass.errors import NotFoundError
from grass.system.entropy import operation_id

if TYPE_CHECKING:
    from grass.wire.views import ScheduleView


class ScheduleCalls(Requests):
    """Batches of jobs, and cron rules."""

    def schedules(self) -> list[ScheduleView]:
        """Return all schedules. Times are seconds since the epoch. Raises UnreachableError."""
        from grass.wire.views import SCHEDULES

        return [*self._get("/v1/schedules", SCHEDULES).schedules]

    def schedule(self, name: str) -> ScheduleView:
        """Return one schedule, with the state of each of its runs. Raises NotFoundError."""
        from grass.wire.views import SCHEDULE

        return self._get(path_of("schedules", name), SCHEDULE)

    def stop_schedule(self, name: str) -> ScheduleView:
        """Stop a schedule, so that it starts nothing more. Jobs of a batch are stopped; the run of a cron rule
        continues. Raises NotFoundError."""
        from grass.wire.views import SCHEDULE

        return self._post(path_of("schedules", name, "stop"), {}, SCHEDULE)

    def pause_schedule(self, name: str) -> ScheduleView:
        """Let a cron rule start nothing until ``resume_schedule``. Raises ConflictError for a batch, NotFoundError."""
        from grass.wire.views import SCHEDULE

        return self._post(path_of("schedules", name, "pause"), {"id": operation_id()}, SCHEDULE)

    def resume_schedule(self, name: str) -> ScheduleView:
        """Let a paused cron rule go on. Times that passed meanwhile are left out. Raises ConflictError,
        NotFoundError."""
        from grass.wire.views import SCHEDULE

        return self._post(path_of("schedules", name, "resume"), {"id": operation_id()}, SCHEDULE)

    def run_schedule(self, name: str) -> ScheduleView:
        """Start the job of a cron rule now, or the jobs of a finished batch again. Raises ConflictError,
        NotFoundError."""
        from grass.wire.views import SCHEDULE

        return self._post(path_of("schedules", name, "run"), {"id": operation_id()}, SCHEDULE)

    def delete_schedule(self, name: str) -> ScheduleView:
        """Remove a schedule, but not its jobs. Raises ConflictError for a batch with active jobs, NotFoundError."""
        from grass.wire.views import SCHEDULE

        view = self.schedule(name)
        try:
            return self._delete(path_of("schedules", name), SCHEDULE)
        except NotFoundError:
            return view  # an earlier attempt of this call, or another user, deleted it
