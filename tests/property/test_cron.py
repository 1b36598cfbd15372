"""A daily rule fires once on every local day, in each zone of the time zone database, for ten years."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.agent.cron import next_time
from tests.support.examples import examples

FIRST, DAYS = date(2026, 1, 1), 3652
_MINUTES = st.integers(0, 24 * 60 - 1)
_SHIFTS = st.integers(-150, 150)
"""Minutes from a change of the clock: most differences are there."""


@given(st.data(), _SHIFTS)
@examples(600, deadline=None)
def test_a_daily_rule_fires_once_on_the_days_around_a_change_of_the_clock(data: st.DataObject, shift: int) -> None:
    name, change = data.draw(st.sampled_from(_changes()))
    shown = datetime.fromtimestamp(change + 60 * shift, ZoneInfo(name))
    day = datetime.fromtimestamp(change, ZoneInfo(name)).date()
    _check(name, shown.hour * 60 + shown.minute, day - timedelta(days=2), 5)


@given(st.sampled_from(sorted(available_timezones())), _MINUTES)
@examples(45, deadline=None)
def test_a_daily_rule_fires_once_on_every_local_day_of_a_year(name: str, minute: int) -> None:
    _check(name, minute, FIRST, 366)


# in every run: test_a_daily_rule_fires_once_on_every_local_day_of_a_year
@pytest.mark.nightly
@pytest.mark.parametrize("minute", [30, 150, 23 * 60 + 30])
@pytest.mark.parametrize("part", range(6))
def test_a_daily_rule_fires_once_on_every_local_day_of_ten_years(minute: int, part: int) -> None:
    for name in _distinct()[part::6]:
        _check(name, minute, FIRST, DAYS)


def _check(name: str, minute: int, first: date, days: int) -> None:
    """Compare the runs of a daily rule with the first moments of each day at which it is that late, by the minute."""
    zone, rule = ZoneInfo(name), f"{minute % 60} {minute // 60} * * *"
    moment = _start(zone, first) - 1
    for day in (first + timedelta(days=number) for number in range(days)):
        found = next_time(rule, name, moment)
        assert found is not None
        start, end = _start(zone, day), _start(zone, day + timedelta(days=1))
        # a change at the end of a day may skip the time: then the day's last moment is the first of the next day
        assert start <= found <= end, (name, rule, day)
        assert datetime.fromtimestamp(found, zone).fold == 0, (name, rule, day)
        shown = datetime.fromtimestamp(found, zone).replace(tzinfo=None)
        due = datetime.combine(day, time(minute // 60, minute % 60))
        before = datetime.fromtimestamp(found - 60, zone).replace(tzinfo=None)
        assert shown >= due > before, (name, rule, day)
        moment = found


@lru_cache(maxsize=8192)
def _start(zone: ZoneInfo, day: date) -> float:
    """Return the first moment of a local day, without a look at the code under test."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=zone).timestamp()
    moment = noon - 15 * 3600
    while datetime.fromtimestamp(moment, zone).date() < day:
        step = 3600 if datetime.fromtimestamp(moment + 3600, zone).date() < day else 60
        moment += step
    return moment


@lru_cache(maxsize=1)
def _changes() -> list[tuple[str, float]]:
    """Return the moments at which the clock of a zone changes, one zone for all that change alike."""
    return [(name, change) for name in _distinct() for change in _of_zone(name)]


@lru_cache(maxsize=1)
def _distinct() -> list[str]:
    found: dict[tuple[float, ...], str] = {}
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        present = datetime(2026, 1, 1, tzinfo=zone).utcoffset()
        found.setdefault((present.total_seconds() if present else 0.0, *_of_zone(name)), name)
    return list(found.values())


@lru_cache(maxsize=1024)
def _of_zone(name: str) -> tuple[float, ...]:
    return tuple(_found(ZoneInfo(name)))


def _found(zone: ZoneInfo) -> Iterator[float]:
    start = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=timezone.utc).timestamp()
    for week in range(DAYS // 7):
        low, high = start + week * 604800, start + (week + 1) * 604800
        if _offset(zone, low) == _offset(zone, high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset(zone, middle) == _offset(zone, low) else (low, middle)
        yield high


def _offset(zone: ZoneInfo, moment: float) -> timedelta | None:
    return datetime.fromtimestamp(moment, zone).utcoffset()
