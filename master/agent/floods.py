"""Tells nodes that send more than any node has reason to: their machine was taken over, or its node-agent is broken.

Asked by the loop, which cuts such a node off. Pure: times and figures are arguments. Used by ``loop``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from grass.model.amounts import show_memory

MOST_WAITING = 50_000
"""Reports of one node that wait. A node-agent puts many events into one report."""
MOST_BYTES = 256 * 1024 * 1024
"""Bytes of one node's reports that wait."""
MOST_TAKEN = 5_000
"""Reports of one node that were taken within ``WINDOW``. A busy node-agent sends a hundred a second."""
WINDOW = 5.0
CHECK_EVERY = 0.25
"""Seconds between checks: at 1 Gbit/s, 30 MB can arrive in between."""


class Floods:
    """Counts what each node sent. One instance per master-agent."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._begun = 0.0
        self._checked = 0.0

    def note(self, senders: Iterable[str], now: float) -> None:
        """Count reports that were taken, by the name of their node."""
        if now - self._begun > WINDOW:
            self._counts.clear()
            self._begun = now
        for sender in senders:
            self._counts[sender] += 1

    def due(self, now: float) -> bool:
        return now - self._checked >= CHECK_EVERY

    def judge(self, waiting: Mapping[str, tuple[int, int]], crowded: Iterable[str], now: float) -> dict[str, str]:
        """Return the nodes that send too much, with the reason. ``waiting``: number and bytes of unread reports."""
        self._checked = now
        found = {node: "it opened too many connections to the store" for node in crowded}
        found |= {node: f"it sent {count} reports within {WINDOW:g} s" for node, count in self._taken()}
        for node, (entries, size) in waiting.items():
            if entries > MOST_WAITING or size > MOST_BYTES:
                found[node] = f"it left {entries} reports ({show_memory(size)}) in the store"
        return found

    def _taken(self) -> list[tuple[str, int]]:
        taken = [(node, count) for node, count in self._counts.items() if count > MOST_TAKEN]
        for node, _ in taken:
            del self._counts[node]
        return taken
