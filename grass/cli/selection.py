"""Which jobs a command applies to: those that it names, or those with a tag. Used by the commands on jobs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from grass.errors import InputError, NotFoundError
from grass.model.key_text import task_parts

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView


@dataclass(frozen=True)
class Parts:
    """Components and tasks of one job."""

    job: str
    parts: tuple[str, ...]


def selected(client: Client, names: Sequence[str], tag: Sequence[str], *, all_jobs: bool) -> list[str]:
    """Return names, or the ids of the jobs with all these tags. ``all_jobs``: the finished ones instead of the active.

    Raises NotFoundError if no job has the tags, or if one of several names is none of a job: nothing was done then.
    """
    if bool(names) == bool(tag):
        raise click.UsageError("name the jobs, or select them with --tag")
    if names:
        distinct = list(dict.fromkeys(names))
        for name in distinct if len(distinct) > 1 else ():
            client.job(name, specification=False)
        return distinct
    states = ("SUCCEEDED", "FAILED", "STOPPED") if all_jobs else ()
    found = [job.id for job in client.jobs(tag=tag, state=states)]
    if not found:
        what = " and ".join(tag)
        if all_jobs:
            raise NotFoundError(f"no finished job has the tag {what}")
        others = f"`grass job list --all --tag {shlex.quote(tag[0])}` lists finished ones"
        raise NotFoundError(f"no active job has the tag {what}; {others}")
    return found


def jobs_or_parts(client: Client, names: Sequence[str]) -> Parts | None:
    """Return the parts of the first job that the other words mean; None: all words are jobs. Raises InputError, and
    NotFoundError for a word that is neither."""
    if len(names) < 2:
        return None
    first = client.job(names[0], specification=False)
    parts = [word for word in names[1:] if is_part(first.components, word)]
    if not parts:
        _check_jobs(client, first, names[1:])
        return None
    if len(parts) < len(names) - 1:
        other = next(word for word in names[1:] if word not in parts)
        raise InputError(f"job {first.name}: has no {other}; stop other jobs in a command of their own")
    return Parts(names[0], tuple(parts))


def _check_jobs(client: Client, first: JobView, names: Sequence[str]) -> None:
    """Raise NotFoundError for a word that is no job: it may have been meant as a component of the first one."""
    for name in names:
        try:
            client.job(name, specification=False)
        except NotFoundError as error:
            has = ", ".join(first.components)
            raise NotFoundError(
                f"{name}: neither a component of job {first.name}, which has {has}, nor a job; "
                "`grass job list --all` lists all jobs"
            ) from error


def is_part(components: Mapping[str, object], word: str) -> bool:
    """Return whether ``word`` is a component of these, or one of their tasks."""
    task = task_parts(word)
    return (word if task is None else task[0]) in components
