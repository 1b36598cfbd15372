"""One work queue in memory: what each step does to its items. Pure.

``changed`` collects the names of items that differ from the store; who uses it writes them. Used by ``queue_book``.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence

from grass.errors import ConflictError
from grass.wire.queue_api import ItemRecord, ItemView, LeasedItem, NewItem, QueueRecord, TallyRecord

MOST_ITEMS = 100_000
"""Items of one queue."""
_OVERHEAD = 64
"""Bytes that count for an item besides its name and value."""
_SHOWN = 100
"""Characters of a value that is shown."""
_SPARE = 1_000
"""Ends of leases that are kept although they do not count any more."""


class WorkQueue:
    """The items of a queue. Times are the master's wall seconds, as in the records."""

    def __init__(self, record: QueueRecord, items: Mapping[str, ItemRecord], tally: TallyRecord) -> None:
        self.record = record
        self.tally = tally
        self.changed: set[str] = set()
        self.items: dict[str, ItemRecord] = {}
        self.bytes = self.dead = self.leased = 0
        self._held: dict[str, set[str]] = {}
        """Holder → items."""
        self._ready: list[tuple[int, str]] = []
        self._ends: list[tuple[float, str]] = []
        """Heaps. An entry counts only while the item is as it says."""
        for name, item in items.items():
            self._add(name, item)

    def _add(self, name: str, item: ItemRecord) -> None:
        self.items[name] = item
        self.bytes += size(name, item.value)
        if item.dead:
            self.dead += 1
        elif item.lease:
            self._hold(name, item)
        else:
            heapq.heappush(self._ready, (item.number, name))

    @property
    def ready(self) -> int:
        return len(self.items) - self.dead - self.leased

    @property
    def holders(self) -> list[str]:
        """Return who holds items now."""
        return list(self._held)

    @property
    def next_was_tried(self) -> bool:
        """Return whether the item that is given out next was given out before."""
        if (name := self._next()) is None:
            return False
        item = self.items[name]
        heapq.heappush(self._ready, (item.number, name))
        return item.tries > 0

    def put(self, items: Sequence[NewItem]) -> list[str]:
        """Append items; return the names of those that are new. Raises ConflictError: the queue is full."""
        if len(self.items) + len(items) > MOST_ITEMS:
            raise ConflictError(f"it would have more than {MOST_ITEMS:,} items; put them when others are done")
        added = []
        for each in items:
            self.tally.number += 1
            while each.name is None and str(self.tally.number) in self.items:  # somebody named an item like a number
                self.tally.number += 1
            name = each.name or str(self.tally.number)
            if name not in self.items:
                self._add(name, ItemRecord(self.tally.number, each.value))
                self.changed.add(name)
                added.append(name)
        return added

    def get(self, count: int, lease: str, holder: str, until: float) -> list[LeasedItem]:
        """Lease the oldest items. With a ``lease`` that this holder has already, return what it still has of it."""
        found = [name for name in self._held.get(holder, ()) if self.items[name].lease == lease]
        if not found:
            while len(found) < count and (name := self._next()):
                item = self.items[name]
                item.lease, item.holder, item.until, item.tries = lease, holder, until, item.tries + 1
                self._hold(name, item)
                self.changed.add(name)
                found.append(name)
        found.sort(key=lambda each: self.items[each].number)
        return [LeasedItem(name, self.items[name].value, self.items[name].tries) for name in found]

    def _next(self) -> str | None:
        """Return the oldest item that is ready."""
        while self._ready:
            number, name = heapq.heappop(self._ready)
            item = self.items.get(name)
            if item is not None and item.number == number and not item.lease and not item.dead:
                return name
        return None

    def acknowledge(self, lease: str, holder: str, names: Iterable[str]) -> list[str]:
        """Remove items that are done. Return those that the holder still held."""
        held = self._of(lease, holder, names)
        for name in held:
            self._release(name)
            self.bytes -= size(name, self.items.pop(name).value)
            self.changed.add(name)
        self.tally.done += len(held)
        return held

    def give_back(self, lease: str, holder: str, names: Iterable[str], why: str, *, bury: bool = False) -> list[str]:
        """Make items ready again, or dead letters if their tries are used up. ``bury``: in any case.

        Return those that the holder still held. ``why``: they are dead letters, if they become some."""
        held = self._of(lease, holder, names)
        for name in held:
            self._back(name, why, bury=bury)
        return held

    def extend(self, lease: str, holder: str, names: Iterable[str], until: float) -> list[str]:
        """Let a lease end at another time. Return the items that the holder still holds."""
        held = self._of(lease, holder, names)
        for name in held:
            self.items[name].until = until
            self._note_end(name, until)
        self.changed.update(held)
        return held

    def expire(self, now: float) -> None:
        """End the leases whose time is over."""
        while self._ends and self._ends[0][0] <= now:
            until, name = heapq.heappop(self._ends)
            item = self.items.get(name)
            if item is not None and item.lease and item.until == until:
                self._back(name, "the lease ended")

    def reclaim(self, holder: str) -> None:
        """End the leases of a holder that is gone."""
        for name in sorted(self._held.get(holder, ()), key=lambda each: self.items[each].number):
            self._back(name, "its task's attempt ended")

    def revive(self, names: Collection[str]) -> list[str]:
        """Make dead letters ready again. No names: all of them. Return which."""
        found = [name for name in names or self.items if name in self.items and self.items[name].dead]
        for name in found:
            item = self.items[name]
            item.dead, item.tries = "", 0
            self.dead -= 1
            heapq.heappush(self._ready, (item.number, name))
        self.changed.update(found)
        return found

    def undone(self) -> dict[str, ItemRecord]:
        """Return all items as a snapshot keeps them: nobody holds them."""
        return {name: ItemRecord(item.number, item.value, item.tries, dead=item.dead) for name, item in self._sorted()}

    def views(self, count: int) -> tuple[ItemView, ...]:
        """Return the first items to be shown: dead letters, then leased and ready ones."""
        order = sorted(self._sorted(), key=lambda pair: 0 if pair[1].dead else 1 if pair[1].lease else 2)
        return tuple(_view(name, item) for name, item in order[:count])

    def _sorted(self) -> list[tuple[str, ItemRecord]]:
        return sorted(self.items.items(), key=lambda pair: pair[1].number)

    def _of(self, lease: str, holder: str, names: Iterable[str]) -> list[str]:
        held = self._held.get(holder, ())
        return [name for name in dict.fromkeys(names) if name in held and self.items[name].lease == lease]

    def _hold(self, name: str, item: ItemRecord) -> None:
        self._held.setdefault(item.holder, set()).add(name)
        self.leased += 1
        self._note_end(name, item.until)

    def _note_end(self, name: str, until: float) -> None:
        heapq.heappush(self._ends, (until, name))
        if len(self._ends) > 2 * self.leased + _SPARE:  # those of items that are done would stay as long as a lease
            self._ends = [(self.items[each].until, each) for held in self._held.values() for each in held]
            heapq.heapify(self._ends)

    def _release(self, name: str) -> ItemRecord:
        item = self.items[name]
        held = self._held[item.holder]
        held.discard(name)
        if not held:
            del self._held[item.holder]
        self.leased -= 1
        item.lease, item.until = "", 0.0
        return item

    def _back(self, name: str, why: str, *, bury: bool = False) -> None:
        item = self._release(name)
        if bury or item.tries >= self.record.tries:
            item.dead = why if bury else f"{why}, at try {item.tries} of {self.record.tries}"
            self.dead += 1
        else:
            heapq.heappush(self._ready, (item.number, name))
        self.changed.add(name)


def size(name: str, value: str) -> int:
    """Return the bytes that count for an item."""
    return _OVERHEAD + len(name) + len(value.encode("utf-8", "replace"))


def _view(name: str, item: ItemRecord) -> ItemView:
    return ItemView(
        name=name,
        value=item.value if len(item.value) <= _SHOWN else item.value[:_SHOWN] + "…",
        state="dead" if item.dead else "leased" if item.lease else "ready",
        tries=item.tries,
        holder=item.holder,
        until=item.until or None,
        dead=item.dead,
    )
