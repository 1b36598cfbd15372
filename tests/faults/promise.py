"""What must be true after a fault, what was found, and what of it is wrong. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Tasks(Enum):
    """What happens to tasks that have begun."""

    GO_ON = "go on"
    START_AGAIN = "start again"
    EITHER = "go on, or start again"


class Calls(Enum):
    """What happens to an open command, or to a command line that moves data."""

    GO_ON = "go on"
    MAY_BREAK = "go on, or end with an error; none hangs"


@dataclass(frozen=True)
class Promise:
    """Each task ends with its own exit code, no attempt begins twice, each line of its log is there once: always.

    ``heals``: seconds until all daemons run, all nodes are READY and a new job succeeds. ``writes``: whether a program
    that does not try again loses no line of its output.
    """

    heals: float
    tasks: Tasks = Tasks.GO_ON
    calls: Calls = Calls.GO_ON
    writes: bool = True


@dataclass(frozen=True)
class NotHere:
    """Why a cell cannot be tried."""

    reason: str


Cell = Promise | NotHere


@dataclass
class Found:
    """What came of one cell. ``wrong``: what no fault excuses. ``opened``: what an isolated user saw of others."""

    again: int = 0
    missing: int = 0
    repeated: int = 0
    calls: str = ""
    healed: float = 0.0
    wrong: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)


def broken(promise: Promise, found: Found) -> list[str]:
    """Return what of the promise was not kept; empty: the cell holds."""
    said = [*found.wrong, *(f"opened to another user: {each}" for each in found.opened)]
    if found.again and promise.tasks is Tasks.GO_ON:
        said.append(f"{found.again} tasks started again")
    if not found.again and promise.tasks is Tasks.START_AGAIN:
        said.append("no task started again")
    if found.calls and promise.calls is Calls.GO_ON:
        said.append(f"a call broke: {found.calls}")
    if found.missing and promise.writes:
        said.append(f"{found.missing} lines are missing")
    if found.repeated:
        said.append(f"{found.repeated} lines are repeated")
    if found.healed > promise.heals:
        said.append(f"healed after {found.healed:.1f} s, not {promise.heals:g} s")
    return said
