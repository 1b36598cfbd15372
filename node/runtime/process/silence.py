"""Measures how long a peer has not answered. Pure: times are arguments. Used by the client of the shepherd."""

from __future__ import annotations


class Silence:
    """Call ``check`` regularly; it says when to ask the peer. Every received message counts as an answer.

    Each check adds at most ``every`` seconds to the silence, however long ago the last check was: if this process was
    stopped or the machine slept, the peer had no chance to answer.
    """

    def __init__(self, every: float, now: float) -> None:
        self._every = every
        self._looked = now
        self._owes = True
        self.total = 0.0
        """Seconds for which an answer is missing, as of the last check."""
        self.of_peer = 0.0
        """The part of ``total`` since the present peer connected."""

    @property
    def due(self) -> float:
        """Return the time of the next check."""
        return self._looked + self._every

    def connected(self) -> None:
        """Note that another peer has replaced the previous one."""
        self._owes = True
        self.of_peer = 0.0

    def received(self) -> None:
        self._owes = False
        self.total = self.of_peer = 0.0

    def check(self, now: float) -> bool:
        """Return whether to ask the peer now. A check before ``due`` changes nothing."""
        if now < self.due:
            return False
        self._looked = now
        if self._owes:
            self.total += self._every
            self.of_peer += self._every
            return False
        self._owes = True
        return True
