"""The kinds of foreign documents, the versions of each that are read, and their readers.

Used by ``grass.cli.apply``, ``grass.manifest.export.kubernetes`` and ``grass.manifest.job``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from grass.manifest import values
from grass.manifest.bounds import check_bounds
from grass.manifest.fields import Fields, Problems
from grass.manifest.foreign import (
    elastic_job,
    mars_job,
    mpi_job,
    pytorch_job,
    run_policy,
    scaling,
    tf_job,
    training_job,
)
from grass.manifest.foreign.metadata import Metadata, read_metadata
from grass.manifest.foreign.notes import Notes
from grass.manifest.foreign.scaling import ScaleRequest
from grass.model.job import Job


class Dialect(NamedTuple):
    """A kind of job of another system. ``read`` gets the section ``spec``; None: it names no tasks.

    ``annotations``: those it knows, and why they are refused; empty: they are taken.
    """

    versions: tuple[str, ...]
    annotations: Mapping[str, str]
    read: Callable[[Fields, Notes, Metadata], Job | None]


JOBS: Mapping[str, Dialect] = MappingProxyType(
    {
        training_job.DIALECT: Dialect(training_job.VERSIONS, training_job.ANNOTATIONS, training_job.read_job),
        mars_job.DIALECT: Dialect(mars_job.VERSIONS, mars_job.ANNOTATIONS, mars_job.read_job),
        elastic_job.DIALECT: Dialect(elastic_job.VERSIONS, {}, elastic_job.read_job),
        pytorch_job.DIALECT: Dialect(pytorch_job.VERSIONS, run_policy.ANNOTATIONS, pytorch_job.read_job),
        tf_job.DIALECT: Dialect(tf_job.VERSIONS, run_policy.ANNOTATIONS, tf_job.read_job),
        mpi_job.DIALECT: Dialect(mpi_job.VERSIONS, run_policy.ANNOTATIONS, mpi_job.read_job),
    }
)
SCALES = MappingProxyType(
    {
        "ScaleIn": (training_job.VERSIONS, scaling.read_scale_in),
        "ScaleOut": (training_job.VERSIONS, scaling.read_scale_out),
    }
)
VERSIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {kind: job.versions for kind, job in JOBS.items()} | {kind: versions for kind, (versions, _) in SCALES.items()}
)


@dataclass(frozen=True)
class ParsedScale:
    request: ScaleRequest
    warnings: tuple[str, ...]


def is_scale(document: Any) -> bool:
    """Return whether the document asks to scale a job."""
    kind = document.get("kind") if isinstance(document, dict) else None
    return isinstance(kind, str) and kind in SCALES


def read_job(fields: Fields, warnings: list[str], *, name: str | None = None) -> Job:
    """Return the job in ``fields``, a foreign document. ``name``: given by a schedule; None: it is in the file."""
    kind = _read_kind(fields)
    if kind not in JOBS:
        if kind:
            fields.problems.add("kind", f"a {kind} is not a job; `grass apply` applies it to the job that it names")
        fields.problems.check()
    fields.raw("status")
    notes = Notes()
    job = read_body(kind, fields, notes)
    warnings += notes.lines()
    fields.problems.check()  # the checks of Grass itself know only the components that were made
    return job if name is None else replace(job, name=name)


def read_body(kind: str, fields: Fields, notes: Notes) -> Job:
    """Return the job in ``fields``, whose kind and version are known."""
    dialect = JOBS[kind]
    about = read_metadata(fields, notes, dialect.annotations)
    spec = fields.section("spec")
    if spec is None:
        fields.problems.add(fields.at("spec"), "is missing")
    job = None if spec is None else dialect.read(spec, notes, about)
    return job or Job(about.name, {}, ())


def parse_scale(document: Any, *, source: str = "") -> ParsedScale:
    """Parse a ScaleIn or ScaleOut. Raise ManifestError with every problem and its path."""
    problems = Problems(source)
    check_bounds(document, problems)
    fields = Fields(document, "", problems, lenient=True)
    kind = _read_kind(fields)
    problems.check()
    fields.raw("status")
    notes = Notes()
    request = SCALES[kind][1](fields, notes)
    fields.done()
    problems.check()
    return ParsedScale(request, tuple(notes.lines()))


def _read_kind(fields: Fields) -> str:
    """Return the kind, or an empty text for a kind or a version that is not read."""
    version = fields.require("apiVersion", values.text, "")
    kind = fields.require("kind", values.text, "")
    known = "; ".join(f"{name} ({', '.join(versions)})" for name, versions in VERSIONS.items())
    if kind and kind not in VERSIONS:
        meant = next((name for name in VERSIONS if name.lower() == kind.lower()), "")
        hint = f"did you mean `{meant}`?" if meant else f"these are read: {known}; write others as a job file of Grass"
        fields.problems.add("kind", f"unknown kind {values.show(kind)}; {hint}")
        return ""
    if kind and version and version not in VERSIONS[kind]:
        expected = " or ".join(VERSIONS[kind])
        fields.problems.add("apiVersion", f"unknown version of {kind}: must be {expected}, got {values.show(version)}")
        return ""
    return kind if version else ""
