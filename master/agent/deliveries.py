"""Which notifications wait, and which is delivered next. Pure. Used by ``courier``.

Fair between users: one has at most half of the deliveries at once. The next delivery is for the user with the fewest
under way, and among these for the one who was served longest ago. If too many wait, the user with the most gives up the
oldest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

SENDERS = 4
"""Deliveries at once for users. The cluster's own receiver waits for none of them."""
MOST_KEPT = 10_000
"""Notifications that wait. Beyond that, old ones are given up."""
OWN = ""
"""In place of a user: the receiver that the cluster's settings name."""


class Waiting(NamedTuple):
    """A notification that waits for delivery.

    ``receiver``: host and port; a user has one delivery to it at a time. ``due``: wall seconds.
    """

    id: str
    user: str
    receiver: str
    due: float = 0.0


class _Entry(NamedTuple):
    due: float
    number: int
    id: str
    receiver: str


@dataclass
class _Lane:
    """The notifications of one user.

    ``items``: the oldest first. ``due``: what may be next. ``parked``: what waits for its receiver.
    """

    items: dict[str, Waiting] = field(default_factory=dict)
    due: list[_Entry] = field(default_factory=list)
    parked: dict[str, list[_Entry]] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    served: int = 0

    def next_due(self, now: float) -> Waiting | None:
        while self.due and self.due[0].due <= now:
            entry = heappop(self.due)
            if entry.receiver in self.busy:
                heappush(self.parked.setdefault(entry.receiver, []), entry)
                continue
            item = self.items.get(entry.id)
            if item is None or item.due != entry.due:  # given up, or put off since
                self.release(entry.receiver)
                continue
            self.busy.add(entry.receiver)
            return item
        return None

    def release(self, receiver: str) -> None:
        """Let the next one for this receiver through."""
        parked = self.parked.get(receiver)
        if parked:
            heappush(self.due, heappop(parked))
        else:
            self.parked.pop(receiver, None)


class Deliveries:
    """The queue of notifications.

    ``senders``, ``most``: as ``SENDERS`` and ``MOST_KEPT``. Not safe for several threads.
    """

    def __init__(self, senders: int = SENDERS, most: int = MOST_KEPT) -> None:
        self._senders = senders
        self._most = most
        self._lanes: dict[str, _Lane] = {}
        self._number = 0

    def __contains__(self, item: Waiting) -> bool:
        lane = self._lanes.get(item.user)
        return lane is not None and item.id in lane.items

    def add(self, item: Waiting) -> Waiting | None:
        """Have it delivered when it is due. If it is known already, this is its new time. Return what is given up."""
        self._number += 1
        lane = self._lanes.setdefault(item.user, _Lane())
        lane.items[item.id] = item
        heappush(lane.due, _Entry(item.due, self._number, item.id, item.receiver))
        if sum(len(each.items) for each in self._lanes.values()) <= self._most:
            return None
        fullest = max(self._lanes.values(), key=lambda each: len(each.items))
        return fullest.items.pop(next(iter(fullest.items)))

    def next_delivery(self, now: float) -> Waiting | None:
        """Return what is to be delivered now; None: nothing. ``finish`` must be called after it."""
        under_way = sum(len(lane.busy) for user, lane in self._lanes.items() if user != OWN)
        for user, lane in sorted(self._lanes.items(), key=lambda pair: (len(pair[1].busy), pair[1].served)):
            if user != OWN and (under_way >= self._senders or 2 * len(lane.busy) >= self._senders):
                continue
            item = lane.next_due(now)
            if item is not None:
                self._number += 1
                lane.served = self._number
                return item
        return None

    def finish(self, item: Waiting) -> None:
        """The delivery is over, however it went: its receiver is free."""
        lane = self._lanes[item.user]
        lane.busy.discard(item.receiver)
        lane.release(item.receiver)
        if not lane.items and not lane.busy:
            del self._lanes[item.user]

    def remove(self, item: Waiting) -> None:
        """It was delivered, or given up. Call it before ``finish``."""
        self._lanes[item.user].items.pop(item.id, None)

    def next_due(self, now: float) -> float | None:
        """Return the next time at which something becomes due; None: nothing does by time alone."""
        later = (lane.due[0].due for lane in self._lanes.values() if lane.due and lane.due[0].due > now)
        return min(later, default=None)
