"""Compare a check of a node with the node's own past. Used by `grass node check --compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median_low
from typing import NamedTuple

from grass.wire.checks import NodeCheck

_PAST = 10
"""Earlier checks that count."""


class Compared(NamedTuple):
    """One measurement beside those of earlier, good checks."""

    name: str
    now: float
    before: float
    """Median of the earlier ones, in seconds."""
    checks: int
    """How many these are."""

    @property
    def factor(self) -> float:
        """How many times slower it is now."""
        return self.now / self.before if self.before > 0 else 1.0


def compared(new: NodeCheck, past: Sequence[NodeCheck]) -> Iterator[Compared]:
    """Yield each measurement that earlier checks have, too. ``past``: newest first."""
    good = [each for each in past if each.verdict.state == "good" and each.at < new.at]
    for name, now in new.times.items():
        before = [each.times[name] for each in good if name in each.times][:_PAST]
        if before:
            yield Compared(name, now, median_low(before), len(before))
