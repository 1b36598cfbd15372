"""The planner's input, kept from round to round, so that a round costs what changed and not what exists.

Only the methods here write to it. Code that changes the memory marks what is stale; ``planner_view.py`` refreshes it.
Used by ``planner_snapshot`` and ``state``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grass.wire.keys import LaunchKey
from master.planning.model import Allocation, Node, QueuedJob

Limited = tuple[Allocation, float | None, float | None]
"""An allocation; the steady time at which its tasks must have ended; without a limit, the estimate of that time."""


@dataclass
class PlannerCache:
    """Remembers which nodes, jobs and launches have changed since the last plan, and what was said then."""

    nodes: dict[str, Node] = field(default_factory=dict)
    queue: dict[str, QueuedJob] = field(default_factory=dict)
    """Job id → its tasks that wait only for free resources."""
    allocations: dict[tuple[str, LaunchKey], list[Limited]] = field(default_factory=dict)
    """(node, launch key) → what is allocated there: to tasks that go on, and to tasks that are being stopped."""
    stale_nodes: dict[str, None] = field(default_factory=dict)
    stale_jobs: dict[str, None] = field(default_factory=dict)
    stale_launches: dict[tuple[str, LaunchKey], None] = field(default_factory=dict)
    planned_at: float = float("-inf")
    """Steady time of the last plan."""
    postponed: bool = False
    """Whether a plan is on the agenda already."""
    reviewed_at: float = float("-inf")
    """Steady time at which the reasons of the whole queue were last reviewed."""
    worded_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """(job id, component) → steady time at which the text of its reason was last written."""
    refilling: dict[str, None] = field(default_factory=dict)
    """Nodes to check for short tasks that may wait there behind equal ones (``placement.refill``)."""
    reserved: dict[str, int] = field(default_factory=dict)
    """Job id → its rank among the jobs with a reservation in the last plan (``QueuedJob.reservation_rank``)."""
    starts: dict[str, float] = field(default_factory=dict)
    """Job id → the first steady time that estimates gave for its start, while it has a reservation."""
    rewording: bool = False
    """Whether some reason's text is older than the plan, and the agenda has an item to update it."""

    # what is stale

    def node_changed(self, name: str) -> None:
        self.stale_nodes[name] = None

    def job_changed(self, job_id: str) -> None:
        self.stale_jobs[job_id] = None

    def launch_changed(self, node: str, key: LaunchKey) -> None:
        self.stale_launches[node, key] = None

    def forget_job(self, job_id: str, components: Iterable[str]) -> None:
        for component in components:
            self.worded_at.pop((job_id, component), None)

    # the planner's input (planner_view.py)

    def show_node(self, name: str, node: Node | None) -> None:
        """Set the node as the planner sees it. None: the planner does not see it."""
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node

    def show_job(self, job_id: str, queued: QueuedJob | None) -> None:
        """Set the job's tasks that wait only for free resources. None: there are none."""
        self.queue.pop(job_id, None)
        if queued is not None:
            self.queue[job_id] = queued

    def show_launch(self, node: str, key: LaunchKey, allocations: list[Limited]) -> None:
        """Set what the tasks of a launch have allocated on a node."""
        if allocations:
            self.allocations[node, key] = allocations
        else:
            self.allocations.pop((node, key), None)

    # plans (placement.py, waiting_reasons.py)

    def plan_begins(self, now: float) -> None:
        self.planned_at, self.postponed = now, False

    def postpone(self) -> None:
        self.postponed = True

    def reserve(self, reserved: Sequence[str]) -> None:
        """Take over ``Plan.reserved``. A job keeps its rank for as long as it stays in that list."""
        before, self.reserved = self.reserved, {}
        last = max(before.values(), default=0)
        for number, job_id in enumerate(reserved, last + 1):
            self.reserved[job_id] = before.get(job_id, number)
        self.stale_jobs.update(dict.fromkeys(before.keys() ^ self.reserved.keys()))

    def expect(self, estimated: Mapping[str, float | None], now: float) -> None:
        """Take over ``Plan.estimated``, of jobs without a placement. A job's first time stays until the job starts."""
        before, self.starts = self.starts, {}
        for job_id, seconds in estimated.items():
            first = before.get(job_id, None if seconds is None else now + seconds)
            if first is not None:
                self.starts[job_id] = first

    def refill(self, nodes: Iterable[str]) -> None:
        self.refilling.update(dict.fromkeys(nodes))

    def refilled(self, node: str) -> None:
        self.refilling.pop(node, None)

    def reviewed_all(self, now: float) -> None:
        self.reviewed_at = now

    def note_worded(self, job_id: str, component: str, now: float) -> None:
        self.worded_at[job_id, component] = now

    def reword(self, later: bool) -> None:
        self.rewording = later
