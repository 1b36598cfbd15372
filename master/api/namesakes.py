"""Jobs that are started behind active ones of their name (`grass job start --after-namesake`). Pure. Used by ``jobs``.

An active job has its name alone, so the new one is ``NAME.2``, ``NAME.3`` or, if ``NAME`` is free again, ``NAME``. It
waits for all of them that are active when it is submitted, whatever their end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from grass.errors import InputError
from grass.manifest.placement import MAX_ITEMS
from grass.model.job import After, AfterState, Job
from grass.model.names import MAX_NAME


def behind(job: Job, active: Mapping[str, str]) -> Job:
    """Return the job under the first free name, waiting for its namesakes. ``active``: name → id of active jobs.

    Raises InputError for a name that is too long for a number, and if too many wait already.
    """
    names = [name for name in active if _is_namesake(name, job.name)]
    if not names:
        return job
    name = next(each for each in _numbered(job.name) if each not in active)
    if len(name) > MAX_NAME:
        raise InputError(f"name: {job.name} is too long for a number behind it; use at most {MAX_NAME - 4} characters")
    before = tuple(After(active[each], AfterState.ENDED, past=True) for each in names)
    after = (*job.after, *before)
    if len(after) > MAX_ITEMS:
        raise InputError(
            f"name: {len(names):,} jobs of the name {job.name} run or wait; a job waits for at most {MAX_ITEMS:,}"
        )
    return replace(job, name=name, after=after)


def earlier(name: str, run: str, active: Mapping[str, str], known: Callable[[str], bool]) -> tuple[str, str] | None:
    """Return name and id of the job that an earlier try of the same request has started. ``run``: the end of its id.

    ``known``: whether there is a job with an id."""
    most = sum(_is_namesake(each, name) for each in active) + 2
    for each, _ in zip(_numbered(name), range(most), strict=False):
        if known(f"{each}-{run}"):
            return each, f"{each}-{run}"
    return None


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}.{number}"
        number += 1


def _is_namesake(other: str, name: str) -> bool:
    base, _, number = other.rpartition(".")
    return other == name or (base == name and number.isdecimal())
