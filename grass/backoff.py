"""Growing waits between retries, for loops and for what is decided in pure code. Neither sleeps nor reads a clock.

Used by all packages.
"""

from __future__ import annotations

_MOST_DOUBLINGS = 64
"""A bound of the exponent: there may be any number of failures, and a float holds 1,023 doublings."""


def wait_after(failures: int, first: float, longest: float) -> float:
    """Return the seconds to wait after failure number ``failures``, from 1: each wait is twice the one before."""
    return min(longest, first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))


class Backoff:
    """The first wait takes ``first`` seconds, each later one ``factor`` times as long, none longer than ``longest``."""

    def __init__(self, first: float, longest: float, factor: float = 2.0) -> None:
        self._first = first
        self._longest = longest
        self._factor = factor
        self._following = first

    @property
    def fresh(self) -> bool:
        """Return whether nothing has failed since the beginning or since ``reset``."""
        return self._following == self._first

    def next(self) -> float:
        """Seconds to wait before the next try."""
        wait = self._following
        self._following = min(wait * self._factor, self._longest)
        return wait

    def reset(self) -> None:
        """Start again with the first wait, after a success."""
        self._following = self._first
