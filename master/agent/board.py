"""What the planner is shown, kept from round to round, so that a round costs what changed and not what exists.

``viewing.py`` brings it up to date; whoever changes the memory marks what is stale (``Step.touch_…``, ``booking.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from master.planning.model import Allocation, Node, QueuedJob

Limited = tuple[Allocation, float | None]
"""With the moment (steady seconds) at which its tasks must have ended, if there is one."""


@dataclass
class Board:
    nodes: dict[str, Node] = field(default_factory=dict)
    queue: dict[str, QueuedJob] = field(default_factory=dict)
    """Job id → what of it waits for nothing but a place."""
    held: dict[tuple[str, str], list[Limited]] = field(default_factory=dict)
    """(node, launch key) → what its tasks hold there: those that go on, and those that were told to stop."""
    stale_nodes: dict[str, None] = field(default_factory=dict)
    stale_jobs: dict[str, None] = field(default_factory=dict)
    stale_launches: dict[tuple[str, str], None] = field(default_factory=dict)
    planned: float = float("-inf")
    """Steady seconds of the last plan."""
    postponed: bool = False
    """A plan is on the agenda already."""
    looked: float = float("-inf")
    """Steady seconds at which all reasons were last looked at."""
    explained: dict[tuple[str, str], float] = field(default_factory=dict)
    """(job id, component) → when the wording of its reason was last written."""
    refilling: dict[str, None] = field(default_factory=dict)
    """Nodes where something happened and tasks may wait behind their own kind, until they were looked at."""
    reserved: dict[str, int] = field(default_factory=dict)
    """Job id → its rank among the jobs whose reservation the last plan kept (``QueuedJob.reservation_rank``)."""
    afterthought: bool = False
    """Some reason's wording is older than the plan; the agenda has an item to bring it up to date."""

    def reserve(self, kept: Sequence[str]) -> None:
        """``kept``: as in ``Plan.reserved``. A job keeps its rank for as long as it is one of them."""
        before, self.reserved = self.reserved, {}
        last = max(before.values(), default=0)
        for number, job_id in enumerate(kept, last + 1):
            self.reserved[job_id] = before.get(job_id, number)
        self.stale_jobs.update(dict.fromkeys(before.keys() ^ self.reserved.keys()))
