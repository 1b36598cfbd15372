"""Reads how a job ends in a native job file: what must succeed, how many may fail, time, restarts, what is kept.

Used by ``native``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from grass.manifest import job_checks, placement, quantities, values
from grass.manifest.fields import Fields
from grass.manifest.matrix import MAX_TASKS
from grass.manifest.restart import least_backoff
from grass.model.ending import NO_JOB_RESTART, Clean, Ending, Enough, JobRestart

KEYS = ("success", "clean", "ttl", "deadline", "restart", "max_failures", "fail_fast")
"""The keys of the job that this module reads."""
MOST_RESTARTS = 1_000_000
_DEFAULT_LIMIT = 3


def read_fail_fast(fields: Fields, components: Collection[str]) -> bool:
    """Return whether the first failure ends the job. With ``max_failures``, it does not."""
    limited = fields.has("max_failures")
    fail_fast = fields.read("fail_fast", values.truth, len(components) > 1 and not limited)
    if limited and fail_fast:
        fields.problems.add(fields.at("max_failures"), "does not go with `fail_fast: true`, which is `max_failures: 0`")
    return fail_fast


def read_ending(fields: Fields, warnings: list[str], components: Collection[str]) -> tuple[tuple[str, ...], Ending]:
    """Return the components that must succeed (empty: the file names none), and how the job ends. ``components``: all
    of the job."""
    success, enough = _read_success(fields, tuple(components))
    return success, Ending(
        clean=fields.read("clean", values.one_of(Clean), Clean.RUNNING),
        ttl=fields.read("ttl", quantities.duration_or_zero, None),
        deadline=fields.read("deadline", quantities.duration, None),
        restart=_read_restart(fields, warnings),
        enough=enough,
        max_failures=fields.read("max_failures", values.whole(0, MAX_TASKS), None),
    )


def _read_success(fields: Fields, components: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Enough]]:
    content = fields.raw("success")
    if isinstance(content, dict):
        return _read_rules(fields, components)
    if content == []:
        fields.problems.add(fields.at("success"), "must not be empty; without it, every component must succeed")
    if not isinstance(content, (list, tuple)):
        if fields.has("success"):
            problem = "must be a list of components, or COMPONENT: all, any or index0"
            fields.problems.add(fields.at("success"), f"{problem}; got {values.show(content)}")
        return (), {}
    return placement.different(fields, fields.at("success"), content, values.component_name), {}


def _read_rules(fields: Fields, components: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Enough]]:
    section = fields.section("success")
    assert section is not None
    rules: dict[str, Enough] = {}
    for name, content in section.entries():
        if components and name not in components:
            fields.problems.add(section.at(name), job_checks.unknown_component(name, components, fields.problems))
        rules[name] = section.parsed(section.at(name), values.one_of(Enough), content, Enough.ALL)
    if not rules:
        fields.problems.add(section.path, "must not be empty; without it, every component must succeed")
    known = tuple(name for name in rules if name in components)  # the others have their problem
    return known, {name: rules[name] for name in known if rules[name] is not Enough.ALL}


def _read_restart(fields: Fields, warnings: list[str]) -> JobRestart:
    section = fields.section("restart")
    if section is None:
        return NO_JOB_RESTART
    restart = JobRestart(
        limit=section.read("limit", values.whole(1, MOST_RESTARTS), _DEFAULT_LIMIT),
        backoff=section.read("backoff", quantities.duration_or_zero, NO_JOB_RESTART.backoff),
    )
    section.done()
    return replace(restart, backoff=least_backoff(section, restart.backoff, warnings))
