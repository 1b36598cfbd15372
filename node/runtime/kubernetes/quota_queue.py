"""Attempts that wait for a quota of their namespace: one of them is tried at a time. Used by ``runtime``.

A quota is free again some time after a pod has ended, and nobody says when. So an end is followed by a few tries, with
growing pauses. If all that wait were tried each time, a thousand waiting tasks would send a million requests.
"""

from __future__ import annotations

from collections.abc import Callable

from grass.backoff import Backoff

_FIRST = 1.0
_LONGEST = 60.0
"""Seconds. Room may also come from others: a quota that was raised, or pods that are not ours."""
_SOON = 0.1


class QuotaQueue:
    """``after(seconds, call)`` calls later. ``begin(key)`` tries an attempt; the caller then says how that ended."""

    def __init__(self, after: Callable[[float, Callable[[], None]], object], begin: Callable[[str], None]) -> None:
        self._after = after
        self._begin = begin
        self._keys: dict[str, None] = {}
        self._pauses = Backoff(_FIRST, _LONGEST)
        self._turn = 0
        self._scheduled = False

    def refused(self, key: str) -> None:
        """A quota refused this attempt. The others go first then: they may need less."""
        self._keys.pop(key, None)
        self._keys[key] = None
        if not self._scheduled:
            self._schedule(self._pauses.next())

    def admitted(self, key: str) -> None:
        """The pod of an attempt was made. If the attempt had waited, there may be room for the next."""
        if key in self._keys:
            del self._keys[key]
            self.room()

    def leave(self, key: str) -> None:
        """An attempt waits for no quota any more."""
        if key in self._keys:
            del self._keys[key]
            if self._keys and not self._scheduled:
                self._schedule(self._pauses.next())

    def room(self) -> None:
        """One of our pods has ended, or one found room."""
        if self._keys:
            self._pauses.reset()
            self._schedule(_SOON)

    def _schedule(self, pause: float) -> None:
        self._turn += 1
        self._scheduled, turn = True, self._turn
        self._after(pause, lambda: self._try(turn))

    def _try(self, turn: int) -> None:
        if turn != self._turn:
            return  # an earlier try was scheduled since
        self._scheduled = False
        key = next(iter(self._keys), None)
        if key is not None:
            self._begin(key)
