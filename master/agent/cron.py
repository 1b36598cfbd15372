"""When a cron rule fires next. Pure: of APScheduler only the calculation is used; its scheduler never runs.

A rule names times of the local clock. APScheduler lists them as if the clock never changed. What they mean where it
does is decided here, because APScheduler leaves out what a change skips, at midnight a whole day. Used by
``schedule_changes`` and ``schedules``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

_DAY = 86400.0


def next_time(cron: str, time_zone: str, after: float) -> float | None:
    """Return the first time strictly after ``after`` (both in seconds since the epoch), or None if there is none.

    A time that the clock shows twice counts once, the first time. A time that a change of the clock skips is the moment
    of the change. A rule for every hour (`*`) follows the hours that pass: it skips such times, and repeats them.
    """
    zone = ZoneInfo(time_zone)
    moments = _all_moments if cron.split()[1] == "*" else _first_moment
    best: float | None = None
    for shown in _times(cron, _earliest(zone, after)):
        found = moments(zone, shown)
        if best is not None and (not found or found[0] >= best):
            return best
        best = min((moment for moment in found if moment > after), default=best)
    return best


def _earliest(zone: ZoneInfo, after: float) -> datetime:
    """Return what the clock shows ``after``, or earlier by as much as it is set back within a day of that moment."""
    offsets = [_clock(zone, moment).utcoffset() or timedelta() for moment in (after - _DAY, after, after + _DAY)]
    return _clock(zone, after).replace(tzinfo=None) - (max(offsets) - min(offsets))


def _first_moment(zone: ZoneInfo, shown: datetime) -> list[float]:
    """Return the first moment at which the clock shows a time, or a later one because it skips that time."""
    first = shown.replace(tzinfo=zone)
    if _exists(first):
        return [first.timestamp()]
    # both offsets are right outside of the skipped time only: the change is between what they make of it
    before, moment = int(first.replace(fold=1).timestamp()), int(first.timestamp())
    while moment - before > 1:
        middle = (before + moment) // 2
        if _clock(zone, middle).replace(tzinfo=None) < shown:
            before = middle
        else:
            moment = middle
    return [float(moment)]


def _all_moments(zone: ZoneInfo, shown: datetime) -> list[float]:
    """Return the moments at which the clock shows a time: none, one or two."""
    both = (shown.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    return sorted({moment.timestamp() for moment in both if _exists(moment)})


def _exists(moment: datetime) -> bool:
    return moment.astimezone(timezone.utc).astimezone(moment.tzinfo).replace(tzinfo=None) == moment.replace(tzinfo=None)


def _clock(zone: ZoneInfo, moment: float) -> datetime:
    return datetime.fromtimestamp(moment, zone)


def _times(cron: str, since: datetime) -> Iterator[datetime]:
    """Yield the times that a rule names, as a clock shows them, from ``since`` on."""
    trigger = _trigger(cron)
    while True:
        found = trigger.get_next_fire_time(None, since.replace(tzinfo=timezone.utc))
        if found is None:
            return
        since = found.replace(tzinfo=None)
        yield since
        since += timedelta(minutes=1)


@lru_cache(maxsize=256)
def _trigger(cron: str) -> Any:  # APScheduler has no types
    from apscheduler.triggers.cron import CronTrigger  # slow to import; only clusters with a cron rule need it

    return CronTrigger.from_crontab(cron, timezone=timezone.utc)
