"""One round of the master-agent: the memory, what it changes, and the times and chance it may use. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from grass.model.policy import ClusterPolicy
from grass.wire.event_record import EventRecord
from grass.wire.keys import LaunchKey
from grass.wire.moment import Moment
from master.agent.agenda import Agenda
from master.agent.aside import Work
from master.agent.changes import Changes
from master.agent.state import Cluster, JobRun, NodeRun
from master.planning.decide import decide
from master.planning.model import Plan, View

ASSIGNED_AT_ONCE = 500
"""Tasks that are assigned in one round, which is then committed: tickets wait for no longer than that."""


@dataclass(frozen=True)
class Limits(ClusterPolicy):
    """The cluster's policy, and the version of Grass."""

    version: str | None = None
    """A node with another version of Grass stays out; None: any will do."""


@dataclass
class Step:
    """``now`` is steady seconds of boot ``boot``; ``wall`` is for people. ``decide``: the planner."""

    cluster: Cluster
    agenda: Agenda
    limits: Limits
    random: random.Random
    now: float
    wall: float
    boot: str
    decide: Callable[[View], Plan] = decide
    changes: Changes = field(default_factory=Changes)
    room: int = ASSIGNED_AT_ONCE
    """Tasks that may still be assigned in this round. Below 0: a gang was, which is never divided."""
    work: Work | None = None
    """What is being done: if it raises, this is set aside. None: nothing that could be left out."""
    errors: list[Exception] = field(default_factory=list)
    """Of the planner, which were dealt with here; whoever may write a log writes them there."""

    def __post_init__(self) -> None:
        self.changes.boot = self.boot

    def touch_job(self, run: JobRun) -> None:
        self.changes.jobs[run.id] = run
        self.cluster.cache.job_changed(run.id)

    def touch_node(self, node: NodeRun) -> None:
        self.changes.nodes[node.name] = node
        self.cluster.cache.node_changed(node.name)

    def touch_launch(self, node: NodeRun, key: LaunchKey) -> None:
        """What the tasks of ``key`` hold on the node has changed."""
        self.cluster.cache.launch_changed(node.name, key)
        self.touch_node(node)

    def event(
        self, kind: str, message: str, user: str = "", *, job: str = "", node: str = "", schedule: str = ""
    ) -> None:
        self.changes.events.append(EventRecord(self.wall, kind, message, user, job=job, node=node, schedule=schedule))

    def later(self, seconds: float) -> Moment:
        """A moment that means the same to the next master-agent of this boot."""
        return Moment(self.now + seconds, self.boot)
