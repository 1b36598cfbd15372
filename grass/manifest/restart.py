"""Read ``restart`` of a component. Pure. Used by ``ending`` and ``native``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grass.manifest import quantities, values
from grass.manifest.fields import Fields
from grass.model.amounts import show_memory
from grass.model.job import NO_RESTART, Restart, RestartOn

UNLIMITED = "unlimited"
LEAST_BACKOFF = 0.1
"""Least seconds before the first restart. Without it, what fails at once would start a hundred times a second."""


def read_restart(fields: Fields, warnings: list[str], memory: int = 0) -> Restart:
    """``memory``: of a task; 0: it has no limit."""
    policy = values.one_of(RestartOn)
    if isinstance(fields.raw("restart"), str):
        return Restart(policy=fields.read("restart", policy, RestartOn.NEVER))
    section = fields.section("restart")
    if section is None:
        return Restart()
    restart = Restart(
        policy=section.read("policy", policy, RestartOn.ON_FAILURE),
        limit=section.read("limit", _restart_limit, NO_RESTART.limit),
        backoff=section.read("backoff", quantities.duration_or_zero, NO_RESTART.backoff),
        codes=_read_codes(section),
        memory=section.read("memory", quantities.memory, None),
    )
    if restart.memory is not None and (not memory or restart.memory <= memory):
        asked = (
            f"`resources.memory`, which is {show_memory(memory)}" if memory else "`resources.memory`, which is missing"
        )
        section.problems.add(section.at("memory"), f"must be more than {asked}")
    section.done()
    if restart.policy is RestartOn.NEVER:
        return restart
    return replace(restart, backoff=least_backoff(section, restart.backoff, warnings))


def least_backoff(section: Fields, backoff: float, warnings: list[str]) -> float:
    """Return the wait before the first restart, with a warning if it was raised."""
    if backoff >= LEAST_BACKOFF:
        return backoff
    warnings.append(
        f"{section.at('backoff')}: {backoff:g}s is raised to {LEAST_BACKOFF:g}s; what fails at once would otherwise "
        "restart all the time"
    )
    return LEAST_BACKOFF


def _read_codes(fields: Fields) -> tuple[int, ...]:
    if fields.raw("codes") == []:
        fields.problems.add(fields.at("codes"), "must not be empty; without it, a task restarts after every failure")
    read = [fields.parsed(path, values.whole(1, 255), item, 0) for path, item in fields.items("codes")]
    return tuple(sorted(set(read)))


def _restart_limit(value: Any) -> int | None:
    return None if value == UNLIMITED else values.whole(1, 1_000_000)(value)
