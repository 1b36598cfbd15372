"""What tasks left behind, and what it says. Pure.

Each attempt appends ``ATTEMPT PID NUMBER`` to a file of its host, with numbers from 0. The file does not pass through
Grass, so it shows what ran, whatever Grass believes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise


def run_twice(marks: Iterable[str]) -> list[str]:
    """Return the attempts that began more than once: more processes than one, or a count that is none."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for mark in marks:
        attempt, pid, number = mark.split()
        found[attempt][pid].append(int(number))
    wrong = []
    for attempt, processes in sorted(found.items()):
        if len(processes) > 1:
            wrong.append(f"{attempt} ran as processes {', '.join(sorted(processes))}")
        wrong += [f"{attempt} counted wrongly" for numbers in processes.values() if numbers != [*range(len(numbers))]]
    return wrong


def begun(marks: Iterable[str]) -> set[str]:
    """Return the attempts that began, as ``t.0/1``."""
    return {mark.split()[0] for mark in marks}


def gaps(numbers: list[int], count: int) -> tuple[int, int]:
    """Return how many of the first ``count`` numbers are missing, and how many are repeated or out of order."""
    repeated = len(numbers) - len(set(numbers))
    disorder = sum(after < before for before, after in pairwise(numbers))
    return count - len({*numbers} & {*range(count)}), repeated + disorder
