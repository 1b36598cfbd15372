"""Schedules: batches of names, cron rules, and what cron means by its days."""

from __future__ import annotations

import datetime

import pytest
from apscheduler.triggers.cron import CronTrigger

from grass.errors import ManifestError
from grass.manifest import read_document
from grass.manifest.cron import rule
from grass.manifest.schedule import parse_schedule
from grass.model.schedule import Missed, Overlap, Schedule, ScheduleKind
from grass.wire import codec

CRON = """
name: nightly
cron: "0 3 * * *"
time_zone: Europe/Paris
missed: skip
overlap: replace
job:
  timeout: 2h
  components: {report: {command: date}}
"""


def schedule_of(text: str) -> Schedule:
    return parse_schedule(read_document(text)).schedule


def problems_of(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_schedule(read_document(text))
    return [str(problem) for problem in caught.value.problems]


def test_a_cron_schedule_holds_one_job_named_after_it() -> None:
    schedule = schedule_of(CRON)
    assert (schedule.name, schedule.kind, schedule.cron) == ("nightly", ScheduleKind.CRON, "0 3 * * *")
    assert (schedule.time_zone, schedule.missed, schedule.overlap) == ("Europe/Paris", Missed.SKIP, Overlap.REPLACE)
    assert [(job.name, job.timeout) for job in schedule.jobs] == [("nightly", 7200.0)]


def test_the_jobs_keys_may_stand_beside_the_rule() -> None:
    schedule = schedule_of("{name: a, cron: '*/5 * * * *', timeout: 1m, components: {x: {command: c}}}")
    assert schedule.jobs[0].timeout == 60.0
    assert (schedule.time_zone, schedule.missed, schedule.overlap) == ("UTC", Missed.RUN_ONCE, Overlap.SKIP)


def test_a_maro_job_may_be_started_by_a_rule() -> None:
    schedule = schedule_of("{name: a, cron: '0 3 * * *', job: {mode: process, components: {x: {num: 2, command: c}}}}")
    assert schedule.jobs[0].components["x"].replicas == 2


@pytest.mark.parametrize("key", ["jobs", "job_names"])
def test_a_batch_is_one_job_per_name(key: str) -> None:
    schedule = schedule_of(f"{{name: sweep, {key}: [a, b], timeout: 5m, components: {{x: {{command: c}}}}}}")
    assert schedule.kind is ScheduleKind.BATCH
    assert schedule.cron is None
    assert [(job.name, job.timeout) for job in schedule.jobs] == [("a", 300.0), ("b", 300.0)]


@pytest.mark.parametrize("text", [CRON, "{name: sweep, jobs: [a, b], components: {x: {command: c}}}"])
def test_a_schedule_survives_its_way_over_the_wire(text: str) -> None:
    schedule = schedule_of(text)
    assert codec.Form[Schedule](Schedule).decode(codec.encode(schedule)) == schedule


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "name: a\ncomponents: {x: {command: c}}",
            "needs `jobs` (names of jobs that share components) or `cron`; to start one job",
        ),
        ("name: a\njobs: []\ncomponents: {x: {command: c}}", "jobs: must not be empty"),
        ("name: a\njobs: b\ncomponents: {x: {command: c}}", 'jobs: must be a list, got "b"'),
        ("name: a\njobs: [b, b]\ncomponents: {x: {command: c}}", "jobs[1]: the job `b` is named twice"),
        ("name: a\njobs: [b/c]\ncomponents: {x: {command: c}}", "jobs[0]: must be a name made of"),
        ("name: a\njobs: [b]\njob_names: [b]\ncomponents: {x: {command: c}}", "job_names: means the same as `jobs`"),
        ("name: a\njobs: [b]\nmissed: skip\ncomponents: {x: {command: c}}", "missed: requires `cron`"),
        ("name: a\njobs: [b]", "components: is missing; a job needs at least one component"),
        ("jobs: [b]\ncomponents: {x: {command: c}}", "name: is missing"),
        (CRON + "jobs: [b]", "jobs: cannot be combined with `cron`"),
        (CRON + "components: {}", "components: belongs under `job`, with the rest of the job"),
        (CRON + "timezone: UTC", "timezone: unknown key; did you mean `time_zone`?"),
        (CRON.replace("timeout: 2h", "name: b"), "job.name: must be left out; the schedule names its runs"),
        (CRON.replace("command: date", "comand: date"), "job.components.report.command: is missing"),
        (CRON.replace("Europe/Paris", "Europe/Lutetia"), "time_zone: must be a time zone such as UTC or Europe/Paris"),
        (CRON.replace("Europe/Paris", "../../etc/passwd"), "time_zone: must be a time zone such as"),
        (CRON.replace("Europe/Paris", "Europe"), "time_zone: must be a time zone such as"),
        (CRON.replace("missed: skip", "missed: later"), "missed: must be one of skip, run-once; got"),
        (CRON.replace("overlap: replace", "overlap: 1"), "overlap: must be one of skip, queue, replace; got 1"),
        (CRON.replace("0 3 * * *", "0 3 * *"), "cron: must have five fields"),
        (CRON.replace('"0 3 * * *"', "5"), "cron: must be text, got 5"),
        (CRON.replace("0 3 * * *", "61 3 * * *"), "cron: is not a cron rule: Error validating expression '61'"),
        (CRON.replace("0 3 * * *", "0 3 * * 8"), "cron: must have days 0-7 or sun-sat in its last field"),
        (CRON.replace("0 3 * * *", "0 3 * * */0"), "cron: must have a step of at least 1"),
        (CRON.replace("0 3 * * *", "0 3 30 2 *"), "cron: must fire at some time; none of its months has such a day"),
        (CRON.replace("job:", "job: 5\nx:"), "job: must be a mapping (KEY: VALUE lines), got 5"),
    ],
)
def test_a_mistake_is_named_with_its_path(text: str, problem: str) -> None:
    assert problems_of(text)[0].startswith(problem)


def test_a_rule_that_limits_both_kinds_of_day_is_pointed_out() -> None:
    (warning,) = parse_schedule(read_document(CRON.replace("0 3 * * *", "0 3 13 * fri"))).warnings
    assert warning == "cron: limits the day of the month and of the week; both must match"


@pytest.mark.parametrize(
    ("days", "wanted"),
    [
        ("0", {"Sun"}),
        ("7", {"Sun"}),
        ("1-5", {"Mon", "Tue", "Wed", "Thu", "Fri"}),
        ("5-7", {"Fri", "Sat", "Sun"}),
        ("0-2", {"Sun", "Mon", "Tue"}),
        ("sun-tue", {"Sun", "Mon", "Tue"}),
        ("FRI-mon", {"Fri", "Sat", "Sun", "Mon"}),
        ("*/2", {"Sun", "Tue", "Thu", "Sat"}),
        ("1-6/2", {"Mon", "Wed", "Fri"}),
        ("2/2", {"Tue", "Thu", "Sat"}),
        ("mon,4", {"Mon", "Thu"}),
        ("0-6", {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}),
    ],
)
def test_days_of_the_week_are_those_of_cron(days: str, wanted: set[str]) -> None:
    trigger = CronTrigger.from_crontab(rule(f"0 0 * * {days}"), timezone=datetime.timezone.utc)
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    fired: set[str] = set()
    for _ in range(14):
        now = trigger.get_next_fire_time(None, now)
        fired.add(now.strftime("%a"))
        now += datetime.timedelta(seconds=1)
    assert fired == wanted


def test_a_rule_has_a_sane_length() -> None:
    (problem,) = problems_of(CRON.replace("0 3 * * *", "0 " + ",".join(["3"] * 200) + " * * *"))
    assert problem.startswith("cron: must have five fields")
