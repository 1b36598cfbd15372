"""Reads ``after`` in a native job file: the jobs to wait for. The API checks that these jobs exist.

Used by ``native`` and ``schedule``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from grass.manifest import values
from grass.manifest.fields import Fields, Problems
from grass.manifest.placement import MAX_ITEMS
from grass.model.job import After, AfterState, Component
from grass.model.names import MAX_NAME


class _Tasks(str, Enum):
    """Which tasks of a job to wait for."""

    SAME = "same"


_LONGEST = MAX_NAME + 1 + 8
"""Longest id of a run: the name, ``-`` and 8 characters."""


def read_after(fields: Fields) -> tuple[After, ...]:
    """Read ``NAME``, ``{job: NAME, state: ended}``, or a list of these forms."""
    content = fields.raw("after")
    if isinstance(content, (list, tuple)):
        if not content:
            fields.problems.add(fields.at("after"), "must not be empty; without it, the job waits for no other job")
        if len(content) > MAX_ITEMS:
            fields.problems.add(fields.at("after"), f"must have at most {MAX_ITEMS:,} items, got {len(content):,}")
            return ()
        items = list(fields.items("after"))
    elif fields.has("after"):
        items = [(fields.at("after"), content)]
    else:
        items = []
    found: dict[str, After] = {}
    for path, item in items:
        after = _read_one_after(fields, path, item)
        if after.job in found:
            fields.problems.add(path, f"the job `{after.job}` is named twice")
        elif after.job:
            found[after.job] = after
    return tuple(found.values())


def _read_one_after(fields: Fields, path: str, item: Any) -> After:
    if not isinstance(item, dict):
        return After(fields.parsed(path, job_or_id, item, ""))
    section = Fields(item, path, fields.problems)
    after = After(
        section.require("job", job_or_id, "", "is missing; name the job to wait for"),
        section.read("state", values.one_of(AfterState), AfterState.SUCCEEDED),
        section.read("tasks", values.one_of(_Tasks), None) is _Tasks.SAME,
    )
    if after.same_tasks and after.state is not AfterState.SUCCEEDED:
        section.problems.add(section.at("state"), "must be left out: with `tasks: same`, a task waits for success")
    section.done()
    return after


def check_tasks(problems: Problems, after: tuple[After, ...], components: Mapping[str, Component], gang: bool) -> None:
    """Report jobs whose tasks cannot wait each for one task of another job."""
    for number, each in enumerate(after):
        if not each.same_tasks:
            continue
        path = after_path(after, number)
        if len(components) > 1:
            problems.add(path, f"needs a job with one component, got {len(components)}; use `depends_on` between them")
        elif gang or any(part.elastic or part.framework for part in components.values()):
            problems.add(path, "cannot be combined with `gang`, `framework`, `min` and `max`: its tasks start apart")


def after_path(after: tuple[After, ...], number: int) -> str:
    """Return the path of `tasks` in an entry of `after`."""
    return "after.tasks" if len(after) == 1 else f"after[{number}].tasks"


def job_or_id(value: Any) -> str:
    """Parse the name of a job (meaning its latest run), or the id of one run."""
    if isinstance(value, str) and MAX_NAME < len(value) <= _LONGEST:
        name, _, run = value.rpartition("-")
        if len(run) == 8:
            return f"{values.name(name)}-{values.name(run)}"
    return values.name(value)


def refuse_itself(fields: Fields, name: str, after: tuple[After, ...]) -> None:
    """Report a job that waits for itself. ``name``: of the job that waits."""
    if name and name in (one.job for one in after):
        fields.problems.add(fields.at("after"), f"a job cannot wait for itself; `{name}` is this job")
