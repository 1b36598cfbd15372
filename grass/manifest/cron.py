"""Reads cron rules. APScheduler computes their times, but differs from cron in two ways.

APScheduler counts days of the week from Monday = 0; cron counts from Sunday = 0 (and 7). So days are turned into names.
If a rule limits both the day of the month and the day of the week, APScheduler needs both to match; cron needs either.
Used by ``schedule``.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

from grass.manifest.document import one_line
from grass.manifest.values import Wrong, show, text

MAX_RULE = 200

_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY = r"(?:[0-7]|sun|mon|tue|wed|thu|fri|sat)"
_PART = re.compile(rf"(?:\*|({_DAY})(?:-({_DAY}))?)(?:/([0-9]{{1,2}}))?")
_FIRST = datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)
"""An arbitrary time from which to check that a rule ever fires."""


def rule(value: Any) -> str:
    """Return the rule with single spaces and names of days. Raise Wrong if the rule is invalid or can never fire."""
    given = text(value).strip().lower()
    fields = _NAMED.get(given, given).split()
    if given.startswith("@") and given not in _NAMED:
        raise Wrong(f"must be five fields or one of {', '.join(_NAMED)}, got {show(value)}")
    if len(fields) != 5 or len(value) > MAX_RULE:
        wanted = "minute, hour, day of month, month, day of week"
        raise Wrong(f"must have five fields ({wanted}) such as `0 3 * * *`, got {show(value)}")
    fields[4] = _days(fields[4], value)
    cron = " ".join(fields)
    _check(cron, value)
    return cron


def limits_both_days(cron: str) -> bool:
    fields = cron.split()
    return fields[2] != "*" and fields[4] != "*"


def time_zone(value: Any) -> str:
    """Parse a name of the time zone database, such as ``Europe/Paris``."""
    import zoneinfo

    name = text(value)
    if name == "UTC":
        return name
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Wrong(f"must be a time zone such as UTC or Europe/Paris, got {show(value)}") from error
    return name


def _days(field: str, value: Any) -> str:
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise Wrong(f"must have days 0-7 or sun-sat in its last field, got {show(value)}")
        found.update(_days_of(match[1], match[2], int(match[3]) if match[3] else None, value))
    if len(found) == 7:
        return "*"
    return ",".join(day for number, day in enumerate(_DAYS) if number in found)


def _days_of(first: str | None, last: str | None, step: int | None, value: Any) -> list[int]:
    """Return the days' numbers. `fri-mon` wraps around the week's end; `2/2` starts on Tuesday, as in cron."""
    if step == 0:
        raise Wrong(f"must have a step of at least 1, got {show(value)}")
    start = 0 if first is None else _number(first)
    end = 6 if first is None or (last is None and step) else _number(last or first)
    if last == "7":
        end = 7
    if end < start:
        end += 7
    return [day % 7 for day in range(start, end + 1, step or 1)]


def _number(day: str) -> int:
    return int(day) % 7 if day.isdigit() else _DAYS.index(day)


def _check(cron: str, value: Any) -> None:
    from apscheduler.triggers.cron import CronTrigger

    try:
        trigger = CronTrigger.from_crontab(cron, timezone=datetime.timezone.utc)
        fires = trigger.get_next_fire_time(None, _FIRST) is not None
    except (ValueError, OverflowError) as error:
        raise Wrong(f"is not a cron rule: {one_line(str(error))}; got {show(value)}") from error
    if not fires:
        raise Wrong(f"must fire at some time; none of its months has such a day, got {show(value)}")
