"""Parses a document into a job: in Grass's dialect, in MARO's, or in one of another system (``foreign``).

Used by ``grass.manifest`` and ``schedule``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grass.manifest import dlrover, job_checks, maro, native
from grass.manifest.bounds import check_bounds
from grass.manifest.document import Document
from grass.manifest.fields import Fields, Problems
from grass.manifest.foreign.marks import MARKS, is_foreign
from grass.model.job import Job


@dataclass(frozen=True)
class ParsedJob:
    """A job and its warnings. ``warnings``: accepted keys that Grass ignores, each with its path."""

    job: Job
    warnings: tuple[str, ...]


def parse_job(document: Document, *, source: str = "") -> ParsedJob:
    """Parse a job. Raise ManifestError with every problem and its path. ``source``: the name of the file."""
    problems = Problems(source)
    check_bounds(document, problems)
    warnings: list[str] = []
    fields = Fields(document, "", problems, lenient=is_maro(document) or is_foreign(document))
    for key in ("cron", "jobs", "job_names"):
        fields.refuse(key, "belongs to a schedule; start this file with `grass schedule start`")
    problems.check()
    job = read_job(fields, warnings)
    fields.done()
    problems.check()
    return ParsedJob(job, tuple(warnings))


def is_native(document: Any) -> bool:
    """Return whether the file is in Grass's own dialect."""
    return not is_maro(document) and not is_foreign(document)


def is_maro(document: Any) -> bool:
    """Return whether the file is MARO's: MARO's files always have `mode`; Grass's own job files never do."""
    return isinstance(document, dict) and "mode" in document


def read_job(fields: Fields, warnings: list[str], *, name: str | None = None) -> Job:
    """Read the keys of a job from ``fields`` and check that the keys fit together."""
    if any(key in MARKS for key, _ in fields.others()):
        from grass.manifest.foreign import dialects  # 7 ms, which every other submission saves

        job = dialects.read_job(fields, warnings, name=name)
    else:
        read = maro.read_job if fields.has("mode") else native.read_job
        job = read(fields, warnings, name=name)
    job = dlrover.with_master(job)
    job_checks.check(job, fields.path, fields.problems)
    return job
