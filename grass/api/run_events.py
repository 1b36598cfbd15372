"""The events of one run of a job. Used by the dashboard and by `grass report`.

The name of a job is free for another run as soon as it has ended. So the id selects the events of a run, and its times
select the events that an older Grass recorded without the id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.event_views import EventView
    from grass.wire.job_views import JobView

_CLOCKS_DIFFER = 60.0
"""Seconds by which the clock of redis, which numbers the events, may be behind that of the master."""


def events_of_run(client: Client, job: JobView, limit: int) -> list[EventView]:
    """Return the newest ``limit`` events of a run, oldest first, from its submission to its end."""
    name, begin, end = job.name, job.submitted, job.ended
    if end is None:
        return [event for event in client.events(job=name, limit=limit, since=begin) if _is_of(event, job)]
    found: list[EventView] = []
    before: str | None = f"{int((end + _CLOCKS_DIFFER) * 1000)}-0"
    while before is not None and len(found) < limit:
        page = client.older_events(before, limit, name, since=begin)
        found = [*(event for event in page.events if _is_of(event, job)), *found]
        before = page.before
    return found[-limit:]


def _is_of(event: EventView, job: JobView) -> bool:
    if event.run:
        return event.run == job.id
    return job.submitted <= event.time and (job.ended is None or event.time <= job.ended)
