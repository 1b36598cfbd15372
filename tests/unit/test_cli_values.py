"""Option values: what is taken, and what is refused with what was expected."""

from __future__ import annotations

from datetime import datetime, timezone

import click
import pytest

from grass.cli import values
from grass.cli.values import Part


def test_since_takes_a_duration_back_from_now() -> None:
    assert values.instant_of("10m", 1000.0) == 400.0


def test_since_takes_iso_times_with_and_without_a_zone() -> None:
    expected = datetime(2026, 3, 1, 12, tzinfo=timezone.utc).timestamp()
    assert values.instant_of("2026-03-01T12:00Z", 0) == expected
    assert values.instant_of("2026-03-01 14:00:00+02:00", 0) == expected
    assert values.instant_of("2026-03-01T12:00", 0) == datetime(2026, 3, 1, 12).astimezone().timestamp()


@pytest.mark.parametrize("text", ["", "soon", "-5m", "2026-13-01", "9999999999999"])
def test_since_refuses_what_is_neither(text: str) -> None:
    assert values.instant_of(text, 0) is None


def test_a_time_to_come_is_a_difference_a_time_of_day_or_an_iso_time() -> None:
    now = datetime(2026, 3, 1, 12, 30, 15).astimezone().timestamp()
    assert values.coming_instant("+2h", now) == now + 7200
    for text, day, hour in (("13:00", 1, 13), ("12:30", 2, 12), ("3:30", 2, 3)):
        minute = int(text[-2:])
        assert values.coming_instant(text, now) == datetime(2026, 3, day, hour, minute).astimezone().timestamp()
    assert values.coming_instant("2026-03-02T00:00Z", now) == datetime(2026, 3, 2, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize("text", ["", "soon", "2h", "+", "+soon", "25:00", "12:60", "12"])
def test_what_is_no_time_to_come_is_none(text: str) -> None:
    assert values.coming_instant(text, 0) is None


@pytest.mark.parametrize("text", ["2020-01-01", "+366d", "9999-01-01"])
def test_a_time_to_come_is_within_a_year(text: str) -> None:
    with pytest.raises(click.BadParameter, match="a time to come, within a year"):
        values.FROM_NOW.convert(text, None, None)


def test_a_part_is_a_component_or_one_of_its_tasks() -> None:
    assert values.PART.convert("worker", None, None) == Part("worker", None)
    assert values.PART.convert("worker.3", None, None) == Part("worker", 3)


@pytest.mark.parametrize("text", ["", ".3", "worker.", "worker.x", "worker.-1", "worker.²"])
def test_a_part_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="COMPONENT"):
        values.PART.convert(text, None, None)


def test_durations_are_those_of_the_manifest() -> None:
    assert values.DURATION.convert("1h30m", None, None) == 5400.0
    with pytest.raises(click.BadParameter, match="a duration such as"):
        values.DURATION.convert("long", None, None)


@pytest.mark.parametrize("text", ["(", "a{99999999999}", "(" * 2000 + ")" * 2000, "[[a]"])
def test_a_broken_pattern_is_refused_before_anything_is_asked(text: str) -> None:
    with pytest.raises(click.BadParameter, match="not a regular expression"):
        values.PATTERN.convert(text, None, None)


def test_a_cluster_without_a_name_is_not_the_current_one() -> None:
    assert values.CLUSTER.convert("local", None, None) == "local"
    with pytest.raises(click.BadParameter, match="is empty"):
        values.CLUSTER.convert("", None, None)
