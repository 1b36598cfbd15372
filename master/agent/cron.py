"""When a cron rule fires next. Pure: APScheduler computes, nothing of it runs or keeps time."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo


def next_time(cron: str, time_zone: str, after: float) -> float | None:
    """The first time strictly after ``after`` (both seconds since the epoch); None when there is none."""
    zone = ZoneInfo(time_zone)
    fired = _trigger(cron, time_zone).get_next_fire_time(
        datetime.fromtimestamp(after, zone), datetime.fromtimestamp(after + 1e-3, zone)
    )
    return None if fired is None else float(fired.timestamp())


@lru_cache(maxsize=256)
def _trigger(cron: str, time_zone: str) -> Any:
    from apscheduler.triggers.cron import CronTrigger  # only a cluster with a cron rule pays for it

    return CronTrigger.from_crontab(cron, timezone=ZoneInfo(time_zone))
