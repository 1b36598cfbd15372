"""When a cron rule fires next. Pure: of APScheduler only the calculation is used; its scheduler never runs.

Used by ``schedule_changes`` and ``schedules``.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo


def next_time(cron: str, time_zone: str, after: float) -> float | None:
    """Return the first time strictly after ``after`` (both in seconds since the epoch), or None if there is none."""
    zone = ZoneInfo(time_zone)
    fired = _trigger(cron, time_zone).get_next_fire_time(
        datetime.fromtimestamp(after, zone), datetime.fromtimestamp(after + 1e-3, zone)
    )
    return None if fired is None else float(fired.timestamp())


@lru_cache(maxsize=256)
def _trigger(cron: str, time_zone: str) -> Any:  # APScheduler has no types
    from apscheduler.triggers.cron import CronTrigger  # slow to import; only clusters with a cron rule need it

    return CronTrigger.from_crontab(cron, timezone=ZoneInfo(time_zone))
