"""Parses a document into a schedule: a batch of job names that share components, or a cron rule with one job.

Used by ``grass.api`` and ``master.api``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grass.manifest import cron, values
from grass.manifest.after import refuse_itself
from grass.manifest.bounds import check_bounds
from grass.manifest.document import Document
from grass.manifest.fields import Fields, Problems
from grass.manifest.job import is_maro, read_job
from grass.manifest.native import JOB_KEYS
from grass.model.job import Job
from grass.model.schedule import Missed, Overlap, Schedule, ScheduleKind

MAX_BATCH = 1000


@dataclass(frozen=True)
class ParsedSchedule:
    """A schedule and its warnings. ``warnings``: accepted keys that Grass ignores, each with its path."""

    schedule: Schedule
    warnings: tuple[str, ...]


def parse_schedule(document: Document, *, source: str = "") -> ParsedSchedule:
    """Parse a schedule. Raise ManifestError with every problem and its path. ``source``: the name of the file."""
    problems = Problems(source)
    check_bounds(document, problems)
    warnings: list[str] = []
    fields = Fields(document, "", problems, lenient=is_maro(document))
    read = _reader(fields)
    schedule = read(fields, warnings)
    fields.done()
    problems.check()
    return ParsedSchedule(schedule, tuple(warnings))


def _reader(fields: Fields) -> Callable[[Fields, list[str]], Schedule]:
    lists = [key for key in ("jobs", "job_names") if fields.has(key)]
    if fields.has("cron"):
        for key in lists:
            fields.refuse(key, "cannot be combined with `cron`, which starts one job, named after the schedule")
        return _read_cron
    if not lists and fields.intact:
        fields.problems.add(
            "", "needs `jobs` (names of jobs that share components) or `cron`; to start one job, use `grass job start`"
        )
    if len(lists) == 2:
        fields.refuse("job_names", "means the same as `jobs`; keep one")
    return _read_batch


def _read_batch(fields: Fields, warnings: list[str]) -> Schedule:
    name = fields.require("name", values.name, "")
    for key in ("time_zone", "missed", "overlap"):
        fields.refuse(key, "requires `cron`")
    names = _read_names(fields, "jobs" if fields.has("jobs") else "job_names")
    template = _read_template(fields, warnings, "")
    for job in names:
        refuse_itself(fields, job, template.after)
    return Schedule(name, ScheduleKind.BATCH, tuple(replace(template, name=job) for job in names))


def _read_names(fields: Fields, key: str) -> list[str]:
    names: dict[str, None] = {}
    for path, item in fields.items(key):
        name = fields.parsed(path, values.name, item, "")
        if name in names:
            fields.problems.add(path, f"the job `{name}` is named twice")
        elif name:
            names[name] = None
    if fields.raw(key) == []:
        fields.problems.add(fields.at(key), "must not be empty")
    if len(names) > MAX_BATCH:
        fields.problems.add(fields.at(key), f"must be at most {MAX_BATCH} names, got {len(names)}")
    return list(names)


def _read_cron(fields: Fields, warnings: list[str]) -> Schedule:
    name = fields.require("name", values.name, "")
    rule = fields.read("cron", cron.rule, "")
    if rule and cron.limits_both_days(rule):
        warnings.append(f"{fields.at('cron')}: limits the day of the month and of the week; both must match")
    return Schedule(
        name,
        ScheduleKind.CRON,
        (_read_template(fields, warnings, name),),
        cron=rule,
        time_zone=fields.read("time_zone", cron.time_zone, "UTC"),
        missed=fields.read("missed", values.one_of(Missed), Missed.RUN_ONCE),
        overlap=fields.read("overlap", values.one_of(Overlap), Overlap.SKIP),
    )


def _read_template(fields: Fields, warnings: list[str], name: str) -> Job:
    """Read the job to start, under `job` or among the schedule's own keys."""
    if not fields.has("job"):
        return read_job(fields, warnings, name=name)
    for key in JOB_KEYS:
        fields.refuse(key, "belongs under `job`, with the rest of the job")
    section = fields.section("job")
    if section is None:
        return Job(name, {}, ())
    section.refuse("name", "must be left out; the schedule names its runs")
    job = read_job(section, warnings, name=name)
    section.done()
    return job
