"""What `grass top` knows of the cluster, from pieces of the change feed (``ChangePiece``). Pure. Used by ``top``."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from grass.model.lifecycle import JobState, TaskState

if TYPE_CHECKING:
    from grass.wire.change_views import ChangePiece
    from grass.wire.event_views import EventView
    from grass.wire.heartbeat import NodeUsage
    from grass.wire.job_views import JobView
    from grass.wire.node_views import NodeView
    from grass.wire.status_views import DiskView, StoreTrouble

MOST_JOBS = 5_000
"""Jobs that are kept; of the others the oldest finished ones are dropped."""
FULL = 0.05
"""Free part of a disk below which the disk is almost full; also in ``alerts.js`` of the dashboard."""
_FIRST = (JobState.RUNNING, JobState.STOPPING, JobState.QUEUED, JobState.FAILED, JobState.STOPPED, JobState.SUCCEEDED)
_RANK = {state: rank for rank, state in enumerate(_FIRST)}
SORTS = ("state", "name", "age", "user", "tasks", "failed")


@dataclass
class State:
    """What is known of the cluster now.

    ``trouble``: why nothing is heard now; empty: all is well.
    """

    jobs: dict[str, JobView] = field(default_factory=dict)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    counts: Mapping[JobState, int] = field(default_factory=dict)
    events: deque[EventView] = field(default_factory=lambda: deque(maxlen=50))
    time: float = 0.0
    complete: bool = False
    trouble: str = ""
    store: StoreTrouble | None = None
    """Why the store refuses writes; None: it accepts them."""
    disks: Sequence[DiskView] = ()
    """Those of the master. The feed does not contain them."""

    def apply(self, piece: ChangePiece) -> None:
        """Take one piece of the feed."""
        self.trouble = ""
        if piece.snapshot:
            self.jobs, self.nodes, self.complete = {}, {}, False
        for job_id in piece.removed.jobs:
            self.jobs.pop(job_id, None)
        for name in piece.removed.nodes:
            self.nodes.pop(name, None)
        self.jobs.update((job.id, job) for job in piece.jobs)
        self.nodes.update((node.name, node) for node in piece.nodes)
        self.events.extend(piece.events)
        self.counts = self.counts if piece.counts is UNSET else piece.counts
        self.time = piece.time
        self.store = self.store if piece.store is UNSET else piece.store
        self.complete = self.complete or piece.complete
        self._bound()

    def _bound(self) -> None:
        surplus = len(self.jobs) - MOST_JOBS
        if surplus > 0:
            ended = [job_id for job_id, job in self.jobs.items() if job.state.ended]
            for job_id in ended[:surplus]:
                del self.jobs[job_id]

    def alerts(self) -> list[str]:
        """Return what needs attention now, the worst first, as the overview of the dashboard does."""
        found = [f"the store refuses writes: {self.store.message}"] if self.store else []
        own = [disk.holds for disk in self.disks if disk.total and disk.free / disk.total < FULL]
        found += [f"the master's disk is almost full: {', '.join(own)}"] if own else []
        for state in ("LOST", "QUARANTINED", "SILENT"):
            names = sorted(name for name, node in self.nodes.items() if node.state == state)
            found += [f"{state.lower()}: {', '.join(names)}"] if names else []
        gpus = [f"{name} {number}" for name, node in sorted(self.nodes.items()) for number in _ill_gpus(node)]
        found += [f"gpu in quarantine or lost: {', '.join(gpus)}"] if gpus else []
        full = sorted(name for name, node in self.nodes.items() if _full(node.usage))
        return [*found, f"disk almost full: {', '.join(full)}"] if full else found

    def sorted_jobs(self, sort: str, reverse: bool = False) -> list[JobView]:
        """Return the jobs. By ``state``: active ones first, then the newest."""
        newest = sorted(self.jobs.values(), key=lambda job: (-job.submitted, job.id))
        found = sorted(newest, key=lambda job: _key(job, sort))
        return found[::-1] if reverse else found


def _ill_gpus(node: NodeView) -> list[int]:
    quarantined = {int(number) for number in node.quarantine or {}}
    lost = {gpu.id for gpu in (node.usage.gpus if node.usage else ()) if gpu.error}
    return sorted(quarantined | lost)


def _full(usage: NodeUsage | None) -> bool:
    return usage is not None and usage.disk_total > 0 and usage.disk_free / usage.disk_total < FULL


def _key(job: JobView, sort: str) -> Any:
    counts = job.counts
    match sort:
        case "name":
            return job.name
        case "age":
            return -job.submitted
        case "user":
            return job.user or ""
        case "tasks":
            return -sum(counts.values())
        case "failed":
            return -(counts.get(TaskState.FAILED, 0) + counts.get(TaskState.LOST, 0))
    return _RANK[job.state]
