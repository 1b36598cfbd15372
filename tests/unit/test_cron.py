"""When a cron rule fires, most of all where the clocks change."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from master.agent.cron import next_time

_CHANGES = [
    ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00", ["10-25T02:30:00+02:00", "10-26T02:30:00+01:00"]),
    ("30 2 * * *", "Europe/Berlin", "2026-03-29T00:00", ["03-29T03:00:00+02:00", "03-30T02:30:00+02:00"]),
    ("0,30 2 * * *", "Europe/Berlin", "2026-03-29T00:00", ["03-29T03:00:00+02:00", "03-30T02:00:00+02:00"]),
    ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["04-24T01:00:00+03:00", "04-25T00:00:00+03:00"]),
    ("30 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["04-24T01:00:00+03:00", "04-25T00:30:00+03:00"]),
    ("30 23 * * *", "Africa/Cairo", "2026-10-29T12:00", ["10-29T23:30:00+03:00", "10-30T23:30:00+02:00"]),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00", ["10-04T02:30:00+11:00", "10-05T02:15:00+11:00"]),
    ("30 23 * * *", "America/Nuuk", "2026-03-28T12:00", ["03-29T00:00:00-01:00", "03-29T23:30:00-01:00"]),
    ("30 * * * *", "Europe/Berlin", "2026-10-25T02:00", ["10-25T02:30:00+02:00", "10-25T02:30:00+01:00"]),
    ("30 * * * *", "Europe/Berlin", "2026-03-29T01:00", ["03-29T01:30:00+01:00", "03-29T03:30:00+02:00"]),
    ("30 * 29 10 *", "Africa/Cairo", "2026-10-29T23:15", ["10-29T23:30:00+03:00", "10-29T23:30:00+02:00"]),
]
"""Rule, zone, the time after which it is asked, and when it fires then."""


@pytest.mark.parametrize(("rule", "zone", "after", "expected"), _CHANGES)
def test_a_rule_fires_once_at_the_first_moment_that_exists(
    rule: str, zone: str, after: str, expected: list[str]
) -> None:
    moment: float | None = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)).timestamp()
    found = []
    for _ in expected:
        assert moment is not None
        moment = next_time(rule, zone, moment)
        assert moment is not None
        found.append(datetime.fromtimestamp(moment, ZoneInfo(zone)).isoformat())
    assert found == [f"2026-{text}" for text in expected]


def test_a_clock_between_two_passes_of_one_hour_starts_no_second_run() -> None:
    zone = ZoneInfo("Europe/Berlin")
    again = datetime(2026, 10, 25, 2, 10, tzinfo=zone, fold=1).timestamp()
    assert next_time("30 2 * * *", "Europe/Berlin", again) == datetime(2026, 10, 26, 2, 30, tzinfo=zone).timestamp()
