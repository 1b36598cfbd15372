"""One round: begin all states, inject the fault once, wait until the cluster is whole, judge each state."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from tests.faults.bed import Bed
from tests.faults.promise import Found, Promise, broken
from tests.faults.states import STATES
from tests.faults.table import Fault
from tests.faults.work import Work

LIMIT = 180.0
"""Seconds after which a cluster is given up. The promise is shorter."""


def run_round(
    bed: Bed, fault: Fault, states: Sequence[str], inject: Callable[[Any], float], number: int
) -> dict[str, tuple[Found, list[str]]]:
    """Return what was found of each state, and what of its promise is broken."""
    bed.before(number)
    works = {state: STATES[state](bed, f"{state.replace(' ', '-')}-{number}") for state in STATES if state in states}
    for work in works.values():
        work.begin()
    trouble = ""
    began = time.monotonic()
    try:
        began = inject(bed)
        bed.heal(number, LIMIT)
    except Exception:  # noqa: BLE001 - each cell of the round says so
        trouble = _said()
    healed = time.monotonic() - began
    opened = bed.opened()
    judged = {}
    for state, work in works.items():
        found = _ended(work)
        found.healed, found.opened = healed, opened
        if trouble:
            found.wrong.insert(0, trouble)
        promise = fault.cell(state)
        assert isinstance(promise, Promise)
        judged[state] = (found, broken(promise, found))
    return judged


def _ended(work: Work) -> Found:
    try:
        work.end()
    except Exception:  # noqa: BLE001 - the others are judged nevertheless
        work.found.wrong.append(_said())
    return work.found


def _said() -> str:
    """Return the error that is being handled, with where it was raised, in a line."""
    error = sys.exc_info()[1]
    assert error is not None
    [*_, last] = traceback.extract_tb(error.__traceback__)
    own = next((each for each in traceback.extract_tb(error.__traceback__)[::-1] if "/faults/" in each.filename), last)
    return f"{type(error).__name__}: {' '.join(str(error).split())} ({own.name}:{own.lineno})"
