"""How long a peer has owed an answer. Pure: times are arguments. Used by clients of the shepherd."""

from __future__ import annotations


class Silence:
    """``look`` at a peer that owes nothing asks it; anything that is ``heard`` is an answer.

    Every look adds at most ``every`` seconds to the silence, however long ago the look before was: in a process that
    was itself stopped, or on a machine that slept, the peer had no chance to answer.
    """

    def __init__(self, every: float, now: float) -> None:
        self._every = every
        self._looked = now
        self._owes = True
        self.total = 0.0
        """Seconds for which nothing was heard that was owed, as seen at the last look."""
        self.of_peer = 0.0
        """As many of them as the present peer owes: one that was just met had no time yet."""

    @property
    def due(self) -> float:
        """When to look again."""
        return self._looked + self._every

    def connected(self) -> None:
        """Another peer takes the place of the one before."""
        self._owes = True
        self.of_peer = 0.0

    def received(self) -> None:
        self._owes = False
        self.total = self.of_peer = 0.0

    def check(self, now: float) -> bool:
        """Whether to ask the peer now. Looks that come too early change nothing."""
        if now < self.due:
            return False
        self._looked = now
        if self._owes:
            self.total += self._every
            self.of_peer += self._every
            return False
        self._owes = True
        return True
