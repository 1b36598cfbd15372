"""What became of changes, in figures and words. Pure. Used by ``tests.mutation.run``."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

SURVIVED, NO_TESTS, KILLED, ENDLESS, TYPES = "survived", "no tests", "killed", "endless", "types"
ALIVE = {SURVIVED, NO_TESTS}


class Change(NamedTuple):
    """A change of a function, and the lines before and after it."""

    function: str
    before: str
    after: str


_STRICT = re.compile(r"(?:, )?\bstrict=\w+|, (?=\))")


_NEVER = re.compile(r"(?:case _: )?assert_never\([\w.]+\)")


def guards_only(change: Change) -> bool:
    """Return whether only what asserts that something holds is changed: ``strict`` of a ``zip``, or the last case of a
    ``match`` that mypy proves to be complete."""
    if _NEVER.fullmatch(change.before):
        return True
    return "strict=" in change.before and _STRICT.sub("", change.before) == _STRICT.sub("", change.after)


def module_of(name: str) -> str:
    """Return the module of a change: ``master.planning.need.x_of__mutmut_3``."""
    return name.rpartition(".")[0]


def allowed(text: str) -> dict[Change, str]:
    """Return the changes that may live, with the reason: blocks of four lines, the function, ``-``, ``+`` and ``=``."""
    found = {}
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith("#")]
        if lines:
            function, before, after, reason = lines
            found[Change(function, before[2:], after[2:])] = reason[2:]
    return found


def figures(found: Mapping[str, str], known: int) -> tuple[list[str], float]:
    """Return a line for each module and one for all, and the part that was noticed. ``known``: those that may live."""
    by_module: dict[str, Counter[bool]] = defaultdict(Counter)
    for name, state in found.items():
        by_module[module_of(name)][state in ALIVE] += 1
    lines = [f"{module}: {each[False]} of {each[False] + each[True]}" for module, each in sorted(by_module.items())]
    noticed, tried = sum(each[False] for each in by_module.values()), len(found) - known
    part = noticed / max(1, tried)
    return [*lines, f"all: {noticed} of {tried} changes were noticed ({part:.1%}); {known} more may live"], part


def differing(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """Return the lines between equal starts and equal ends, those of each side joined to one."""
    first = equal(zip(before, after, strict=False))
    rest = min(len(before), len(after)) - first
    last = min(rest, equal(zip(reversed(before), reversed(after), strict=False)))
    return joined(before[first : len(before) - last]), joined(after[first : len(after) - last])


def joined(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines)


def equal(pairs: Iterable[tuple[str, str]]) -> int:
    """Return how many pairs are of equal texts, up to the first that is not."""
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count
