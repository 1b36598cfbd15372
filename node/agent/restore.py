"""What the node-agent keeps while it compares a restored store with what happened on its node. Used by ``loop``."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from grass.model.reasons import Reason, ReasonCode
from grass.wire.backup import Restored
from grass.wire.task_events import Ended, Unclaimed
from node.agent.end_records import Past
from node.runtime.protocol import Observed


class Restore:
    """The last restore of the store. ``hold``: seconds for which attempts run on that the store does not know."""

    def __init__(self, hold: float) -> None:
        self.hold = hold
        self.at = 0.0
        """When it was, on the master's clock; 0: there was none."""
        self._made = 0.0
        self.ends: dict[str, Ended] = {}
        """How attempts of this node ended, by key."""
        self.held: dict[str, Observed] = {}
        """Running attempts that the store does not know, by key."""

    def begin(self, restored: Restored, past: Past) -> bool:
        """Take note of a restore. Return False if the records were compared with it already."""
        self.at, self._made, self.ends = restored.at, restored.made, past.ends
        return past.restored != restored.at

    def note_end(self, event: Ended) -> None:
        """Note the end of an attempt that the store does not know."""
        self.held.pop(event.key, None)
        self.ends[event.key] = event

    def doubt(self) -> Reason:
        """Return the end of an attempt that the store wants to run, and that the node does not know."""
        return Reason(
            ReasonCode.UNRECORDED,
            "the master was restored from a backup, and this node has no record of what became of the attempt since",
        )

    def unclaimed(self, running: Iterable[str], past: Collection[str]) -> list[Unclaimed]:
        """Return the reports of attempts that nobody desired again. ``past``: those whose ends nobody asked for."""
        self.held.clear()
        ended = [self.ends[key] for key in past if key in self.ends and self.ends[key].at > self._made]
        return [
            *(Unclaimed(key) for key in running),
            *(Unclaimed(each.key, each.at, each.code) for each in ended),
        ]
