"""What the planner is shown, kept from round to round, so that a round costs what changed and not what exists.

Only the methods here write to it. ``viewing.py`` brings it up to date; whoever changes the memory says what is stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from grass.wire.keys import LaunchKey
from master.planning.model import Allocation, Node, QueuedJob

Limited = tuple[Allocation, float | None]
"""With the moment (steady seconds) at which its tasks must have ended, if there is one."""


@dataclass
class PlannerCache:
    nodes: dict[str, Node] = field(default_factory=dict)
    queue: dict[str, QueuedJob] = field(default_factory=dict)
    """Job id → its tasks that wait for nothing but free resources."""
    held: dict[tuple[str, LaunchKey], list[Limited]] = field(default_factory=dict)
    """(node, launch key) → what its tasks hold there: those that go on, and those that were told to stop."""
    stale_nodes: dict[str, None] = field(default_factory=dict)
    stale_jobs: dict[str, None] = field(default_factory=dict)
    stale_launches: dict[tuple[str, LaunchKey], None] = field(default_factory=dict)
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
    rewording: bool = False
    """Some reason's wording is older than the plan; the agenda has an item to bring it up to date."""

    # what is stale

    def node_changed(self, name: str) -> None:
        self.stale_nodes[name] = None

    def job_changed(self, job_id: str) -> None:
        self.stale_jobs[job_id] = None

    def launch_changed(self, node: str, key: LaunchKey) -> None:
        self.stale_launches[node, key] = None

    def forget_job(self, job_id: str, components: Iterable[str]) -> None:
        for component in components:
            self.explained.pop((job_id, component), None)

    # what is shown (viewing.py)

    def show_node(self, name: str, node: Node | None) -> None:
        """None: the planner does not see it."""
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node

    def show_job(self, job_id: str, queued: QueuedJob | None) -> None:
        """None: nothing of it waits for resources."""
        self.queue.pop(job_id, None)
        if queued is not None:
            self.queue[job_id] = queued

    def show_launch(self, node: str, key: LaunchKey, held: list[Limited]) -> None:
        if held:
            self.held[node, key] = held
        else:
            self.held.pop((node, key), None)

    # plans (placing.py, telling.py)

    def plan_begins(self, now: float) -> None:
        self.planned, self.postponed = now, False

    def postpone(self) -> None:
        self.postponed = True

    def plan_again(self) -> None:
        """The next plan need not wait for its time."""
        self.planned = float("-inf")

    def reserve(self, kept: Sequence[str]) -> None:
        """``kept``: as in ``Plan.reserved``. A job keeps its rank for as long as it is one of them."""
        before, self.reserved = self.reserved, {}
        last = max(before.values(), default=0)
        for number, job_id in enumerate(kept, last + 1):
            self.reserved[job_id] = before.get(job_id, number)
        self.stale_jobs.update(dict.fromkeys(before.keys() ^ self.reserved.keys()))

    def refill(self, nodes: Iterable[str]) -> None:
        self.refilling.update(dict.fromkeys(nodes))

    def refilled(self, node: str) -> None:
        self.refilling.pop(node, None)

    def looked_at_all(self, now: float) -> None:
        self.looked = now

    def worded(self, job_id: str, component: str, now: float) -> None:
        self.explained[job_id, component] = now

    def reword(self, later: bool) -> None:
        self.rewording = later
