"""Reads et-operator's ScaleIn and ScaleOut: requests to change the number of workers of a job that runs.

Used by ``dialects`` and ``grass.cli.apply_scale``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign import quantity
from grass.manifest.foreign.metadata import read_metadata
from grass.manifest.foreign.notes import Notes
from grass.manifest.native import MAX_REPLICAS

COMPONENT = "worker"
DEFAULT_TIMEOUT = 60.0
"""Seconds, as in et-operator."""
_SCRIPT = "is not supported; Grass itself gives the launcher the list of its workers"
_LIMIT = "ignored, as et-operator does"
_ENV = "ignored; the variables are those of a script"


@dataclass(frozen=True)
class ScaleRequest:
    """What a ScaleIn or a ScaleOut asks for.

    ``delta``: how many workers more; negative: fewer. ``remove``: the tasks to remove; empty: Grass chooses.

    ``deadline``: seconds. ``path``: of the number or the names in the file, for error messages.
    """

    job: str
    delta: int
    remove: tuple[str, ...] = ()
    deadline: float = DEFAULT_TIMEOUT
    component: str = COMPONENT
    path: str = ""


def read_scale_in(fields: Fields, notes: Notes) -> ScaleRequest:
    spec, job = _read_head(fields)
    section = spec.section("toDelete") if spec is not None else None
    if spec is None or section is None:
        if spec is not None:
            spec.problems.add(spec.at("toDelete"), "is missing; it needs count or podNames")
        return ScaleRequest(job, -1)
    count = section.read("count", values.whole(1, MAX_REPLICAS), None)
    names = tuple(_task(section, path, item, job) for path, item in section.items("podNames"))
    if section.has("count") == section.has("podNames"):
        section.problems.add(section.path, "must have exactly one of count, podNames")
    elif section.has("podNames") and not names:
        section.problems.add(section.at("podNames"), "must not be empty")
    elif len(set(names)) < len(names):
        section.problems.add(section.at("podNames"), "names a pod twice")
    section.done()
    deadline = _read_rest(spec, notes)
    path = section.at("podNames" if names else "count")
    return ScaleRequest(job, -(count or len(names) or 1), names, deadline, path=path)


def read_scale_out(fields: Fields, notes: Notes) -> ScaleRequest:
    spec, job = _read_head(fields)
    section = spec.section("toAdd") if spec is not None else None
    if spec is None or section is None:
        if spec is not None:
            spec.problems.add(spec.at("toAdd"), "is missing; it needs count")
        return ScaleRequest(job, 1)
    count = section.require("count", values.whole(1, MAX_REPLICAS), 1)
    section.done()
    return ScaleRequest(job, count, (), _read_rest(spec, notes), path=section.at("count"))


def _read_head(fields: Fields) -> tuple[Fields | None, str]:
    """Return ``spec``, and the name of the job that ``selector`` gives."""
    if fields.has("metadata"):
        read_metadata(fields, Notes())  # the request needs no name
    spec = fields.section("spec")
    if spec is None:
        fields.problems.add(fields.at("spec"), "is missing")
        return None, ""
    selector = spec.section("selector")
    if selector is None:
        spec.problems.add(spec.at("selector"), "is missing; its name is the job to scale")
        return spec, ""
    job = selector.require("name", values.name, "", "is missing; it is the job to scale")
    selector.done()
    return spec, job


def _read_rest(spec: Fields, notes: Notes) -> float:
    deadline = spec.read("timeout", lambda value: float(quantity.seconds(value)), DEFAULT_TIMEOUT)
    spec.refuse("script", _SCRIPT)
    notes.ignore(spec, {"backoffLimit": _LIMIT, "env": _ENV})
    spec.done()
    return deadline


def _task(section: Fields, path: str, item: object, job: str) -> str:
    """Return the task that a pod's name means: ``JOB-worker-3``, or ``worker.3``."""
    name = section.parsed(path, values.text, item, "")
    match = re.fullmatch(rf"(?:{re.escape(job)}-{COMPONENT}-|{COMPONENT}\.)([0-9]{{1,6}})", name) if job else None
    if match is None:
        if name and job:
            example = f"{job}-{COMPONENT}-1"
            section.problems.add(path, f"no worker of job {job} has this name; write it as {example}, got {name[:80]}")
        return ""
    return f"{COMPONENT}.{int(match[1])}"
