"""Finds the parts of a job that a file of another system has no word for. Pure; used by every writer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields

from grass.manifest.document import Document, join
from grass.manifest.native_writer import job_document
from grass.model.ending import PLAIN_ENDING, Ending
from grass.model.job import Component, Job
from grass.model.resources import DEVICE

_NO_PART = frozenset(
    {"name", "command", "base", "shell", "components", "success", "dialect", "carried", "files", "grown_from"}
)
"""Fields that every writer reads, and those that are not a part of a file."""
_PLAIN_COMPONENT = Component("", "")
_PLAIN_JOB = Job("", {}, ())
_KEYS = {
    "entries": "from",
    "columns": "from",
    "enough": "success",
    "output_limit": "output",
    "output_file": "output",
    "read_only_data": "data",
    "policy": "place.policy",
    "metric": "place.metric",
    "gpu": "resources.gpu",
}
"""Field → its key in a job file, where that has another name."""


@dataclass(frozen=True)
class Exported:
    """An exported job.

    ``text``: of the file. ``missing``: the parts of the job that the file lacks, each once.

    ``needed``: keys that the job lacks and the file must have. ``notes``: what else users have to do.
    """

    text: str
    missing: tuple[str, ...]
    needed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", tuple(dict.fromkeys(self.missing)))


def differences(job: Job, again: Job) -> tuple[str, ...]:
    """Return the keys that are others in the file of ``again``, which was read from the exported one."""
    return tuple(_differing(job_document(job), job_document(again), ""))


def _differing(one: Document, other: Document, path: str) -> Iterator[str]:
    for key in dict.fromkeys((*one, *other)):
        here, there = one.get(key), other.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            yield from _differing(here, there, join(path, key))
        elif here != there:
            yield join(path, key)


def missing(job: Job, of_job: Collection[str], of_components: Collection[str]) -> tuple[str, ...]:
    """Return the keys of a job that have no counterpart. ``of_job``, ``of_components``: the fields that are written.

    Those of how a job ends are among its own."""
    found = []
    for each in fields(Job):
        if each.name == "fail_fast":
            differs = job.fail_fast is not (len(job.components) > 1)
            found += ["fail_fast"] if differs and each.name not in of_job else []
        elif _lacks(job, _PLAIN_JOB, each.name, of_job):
            found += _of_ending(job.ending, of_job) if each.name == "ending" else [_KEYS.get(each.name, each.name)]
    for name, part in job.components.items():
        for each in fields(Component):
            if _lacks(part, _PLAIN_COMPONENT, each.name, of_components):
                found.append(f"components.{name}.{_KEYS.get(each.name, each.name)}")
    return tuple(found)


def of_amounts(part: Component) -> list[str]:
    """Return the resources of a component for which other systems have no word: they know cores, memory, whole GPUs."""
    amounts = part.resources
    found = {"disk": amounts.disk, "custom": amounts.custom, "gpu": amounts.gpu % DEVICE}
    return [f"components.{part.name}.resources.{key}" for key, lacks in found.items() if lacks]


def _of_ending(ending: Ending, written: Collection[str]) -> list[str]:
    lost = [each.name for each in fields(Ending) if _lacks(ending, PLAIN_ENDING, each.name, written)]
    return [_KEYS.get(name, name) for name in lost]


def _lacks(value: object, plain: object, name: str, written: Collection[str]) -> bool:
    return name not in _NO_PART and name not in written and getattr(value, name) != getattr(plain, name)
