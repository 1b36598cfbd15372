"""How long tasks of a component probably take, by those that have succeeded before. Pure. Part of ``state``.

Jobs without a time limit get from it what the planner needs to fill a gap in front of a reservation (ADR 10).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, log2
from statistics import median

from master.agent.component_run import ComponentRun

MOST_RUNS = 15
"""Ended runs of a component that count: the newest."""
MOST_COMPONENTS = 10_000
"""Components that are remembered. The one that was met first is forgotten first."""
ENOUGH = 3
"""Succeeded tasks of a run from which on its earlier runs do not count."""
FACTOR = 2.0
"""An estimate is so many times the median: half of all tasks take longer than the median."""


@dataclass
class Durations:
    """What is known of ended runs.

    ``past``: (user, job name, component) → of each ended run: its end, and the median of its tasks' seconds.
    """

    past: dict[tuple[str, str, str], list[tuple[float, float]]] = field(default_factory=dict)

    def note_end(self, user: str, job: str, ended: float, typical: Mapping[str, float | None]) -> None:
        """Count a run that has ended. ``typical``: component → seconds of its tasks in the median."""
        for name, seconds in typical.items():
            if seconds is not None:
                runs = self.past.setdefault((user, job, name), [])
                insort(runs, (ended, seconds))
                del runs[:-MOST_RUNS]
        while len(self.past) > MOST_COMPONENTS:
            del self.past[next(iter(self.past))]

    def estimate(self, user: str, job: str, component: ComponentRun) -> float | None:
        """Return the seconds that a task of the component probably takes at most; None: nothing is known of it.

        Rounded up to a power of the square root of two, so that jobs of many names are of few kinds.
        """
        samples = [*component.samples]
        if len(samples) < ENOUGH:
            samples += [seconds for _, seconds in self.past.get((user, job, component.spec.name), ())]
        if not samples:
            return None
        return float(2.0 ** (ceil(2.0 * log2(max(FACTOR * median(samples), 1.0))) / 2.0))
