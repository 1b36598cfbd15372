"""From the body of a submission to a job that the cluster accepts. Pure. Used by ``jobs``, ``plan``, ``schedules``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from grass.errors import InputError, ManifestError, Problem
from grass.manifest import ParsedJob, ParsedSchedule, parse_job, parse_schedule
from grass.model.job import Job
from grass.wire.calls import ScheduleSubmission, Submission
from grass.wire.node_record import NodeRecord
from master.api.suitability import asks_about_nodes, unsuited

_RUN = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True)
class Accepted:
    job: Job
    job_id: str
    warnings: tuple[str, ...]


def accept_job(
    submission: Submission,
    nodes: Callable[[], list[NodeRecord]],
    new_id: Callable[[str], str],
    *,
    keep_cwd: bool = True,
) -> Accepted:
    """Return the job. Raises InputError or ManifestError; if ``strict``, also for warnings and unsuited parts.

    ``nodes``: reads their records, which most jobs do not need. ``new_id``: makes a job id from a name. ``keep_cwd``:
    whether tasks start in the client's folder.
    """
    parsed: ParsedJob = parse_job(submission.manifest)
    job = in_folder(parsed.job, _folder(submission.cwd) if keep_cwd else None)
    missing = unsuited(job, nodes()) if submission.strict or asks_about_nodes(job) else []
    if submission.strict and (parsed.warnings or missing):
        raise ManifestError([*(Problem("", warning) for warning in parsed.warnings), *missing])
    warnings = (*parsed.warnings, *map(str, missing))
    return Accepted(job, _job_id(submission.id, job.name) or new_id(job.name), warnings)


def accept_schedule(
    submission: ScheduleSubmission, nodes: Callable[[], list[NodeRecord]], *, keep_cwd: bool = True
) -> ParsedSchedule:
    """Return the schedule. Raises InputError or ManifestError."""
    parsed = parse_schedule(submission.manifest)
    folder = _folder(submission.cwd) if keep_cwd else None
    jobs = tuple(in_folder(job, folder) for job in parsed.schedule.jobs)
    first = jobs[0]  # the jobs of a batch differ only in their names
    missing = unsuited(first, nodes()) if asks_about_nodes(first) else []
    return replace(
        parsed,
        schedule=replace(parsed.schedule, jobs=jobs),
        warnings=(*parsed.warnings, *map(str, missing)),
    )


def in_folder(job: Job, folder: PurePosixPath | None) -> Job:
    """Return the job with ``folder`` as the folder that its components' relative paths refer to."""
    if folder is None:
        return job
    components = {name: replace(part, base=str(folder)) for name, part in job.components.items()}
    return replace(job, components=components)


def _folder(text: str | None) -> PurePosixPath | None:
    if text is None:
        return None
    folder = PurePosixPath(text)
    if not folder.is_absolute() or "\0" in text:
        raise InputError(f"cwd: must be an absolute path, got {text!r}")
    return folder


def _job_id(text: str | None, name: str) -> str | None:
    """Check the id, which the client chooses so that it can repeat a submission whose reply was lost."""
    if text is not None and not (text.startswith(f"{name}-") and _RUN.fullmatch(text[len(name) + 1 :])):
        raise InputError(f"id: must be the job's name, '-' and 8 hexadecimal digits, got {text!r}")
    return text
