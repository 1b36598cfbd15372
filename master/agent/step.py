"""One round of the master-agent: the memory, what it changes, and the times and chance it may use."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from grass.model.policy import ClusterPolicy
from master.agent.agenda import Agenda
from master.agent.changes import Changes
from master.agent.state import Cluster, JobRun, NodeRun

ASSIGNED_AT_ONCE = 500
"""Tasks that get their places in one round, which is then committed: tickets wait for no longer than that."""


@dataclass(frozen=True)
class Limits(ClusterPolicy):
    """The cluster's policy, and the version of Grass."""

    version: str | None = None
    """A node with another version of Grass stays out; None: any will do."""


@dataclass
class Step:
    """``now`` is steady seconds of boot ``boot``; ``wall`` is for people."""

    cluster: Cluster
    agenda: Agenda
    limits: Limits
    random: random.Random
    now: float
    wall: float
    boot: str
    changes: Changes = field(default_factory=Changes)
    room: int = ASSIGNED_AT_ONCE
    """Tasks that may still be assigned in this round. Below 0: a gang was, which is never divided."""

    def __post_init__(self) -> None:
        self.changes.boot = self.boot

    def touch_job(self, run: JobRun) -> None:
        self.changes.jobs[run.id] = run
        self.cluster.board.stale_jobs[run.id] = None

    def touch_node(self, node: NodeRun) -> None:
        self.changes.nodes[node.name] = node
        self.cluster.board.stale_nodes[node.name] = None

    def touch_launch(self, node: NodeRun, key: str) -> None:
        """``key`` (a launch key): what its tasks hold on the node has changed."""
        self.cluster.board.stale_launches[node.name, key] = None
        self.touch_node(node)

    def event(self, kind: str, message: str, user: str = "", **fields: str) -> None:
        self.changes.event(kind, message, self.wall, user, **fields)

    def later(self, seconds: float) -> tuple[float, str]:
        """A moment that means the same to the next master-agent of this boot."""
        return self.now + seconds, self.boot
