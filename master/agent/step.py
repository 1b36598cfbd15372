"""The state of one round: the memory, its changes, and the times and random numbers that deciding may use. No I/O.

Made by the loop for each round. Every deciding function takes it as its first argument.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from grass.model.event_kind import EventKind
from grass.model.policy import ClusterPolicy
from grass.wire.attempt_record import ATTEMPTS_KEPT
from grass.wire.event_record import EventRecord
from grass.wire.keys import LaunchKey
from grass.wire.moment import Moment
from grass.wire.notification import Notification
from master.agent.agenda import Agenda
from master.agent.changes import Changes
from master.agent.node_run import NodeRun
from master.agent.set_aside import Work
from master.agent.state import Cluster, JobRun
from master.planning.decide import decide
from master.planning.model import Plan, Snapshot

ASSIGNED_AT_ONCE = 500
"""Tasks that one round may assign. The limit bounds how long a ticket waits for the current round."""


@dataclass(frozen=True)
class Limits(ClusterPolicy):
    """The cluster's policy, and the version of Grass that nodes must run."""

    version: str | None = None
    """A node with another version gets no tasks. None: any version is accepted."""
    secret: str = field(default="", repr=False)
    """Secret of the master, from which those of jobs are derived. Empty: tasks get no membership API."""
    probe: str = field(default="", repr=False)
    """Text of the program that measures on nodes (``grass/task/node_check.py``)."""
    attempts_kept: int = ATTEMPTS_KEPT
    """Earlier attempts of one job."""


@dataclass
class Step:
    """The memory and the changes of one round, with all that deciding may use.

    ``now``: steady seconds of ``boot``. ``wall``: wall-clock seconds, for people only. ``decide``: the planner.
    """

    cluster: Cluster
    agenda: Agenda
    limits: Limits
    random: random.Random
    now: float
    wall: float
    boot: str
    decide: Callable[[Snapshot], Plan] = decide
    epoch: int = 0
    """The fence of this master-agent."""
    changes: Changes = field(default_factory=Changes)
    assignable: int = ASSIGNED_AT_ONCE
    """Tasks that this round may still assign. A gang is never divided, and may bring this below 0."""
    work: Work | None = None
    """What is being done now, to be set aside if it raises. None: something that cannot be set aside."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """The user whose ticket is being handled → from where it came, for events of this user."""
    errors: list[Exception] = field(default_factory=list)
    """Errors of the planner that were handled in this round, for the loop to log."""

    def __post_init__(self) -> None:
        self.changes.boot, self.changes.wall = self.boot, self.wall

    def touch_job(self, run: JobRun) -> None:
        """Have the job's record written, and its part of the planner's input refreshed."""
        self.changes.jobs[run.id] = run
        self.cluster.cache.job_changed(run.id)

    def touch_node(self, node: NodeRun) -> None:
        """Have the node's record written, and its part of the planner's input refreshed."""
        self.changes.nodes[node.name] = node
        self.cluster.cache.node_changed(node.name)

    def touch_launch(self, node: NodeRun, key: LaunchKey) -> None:
        """Do as ``touch_node``, when what a launch has allocated on the node changed."""
        self.cluster.cache.launch_changed(node.name, key)
        self.touch_node(node)

    def event(
        self,
        kind: EventKind,
        message: str,
        user: str = "",
        *,
        job: str = "",
        run: str = "",
        node: str = "",
        schedule: str = "",
        task: str = "",
        by: str = "",
        address: str = "",
    ) -> None:
        """Record an event. ``message``: `<object>: <what happened>; <what happens next or what to do>`.

        ``job``, ``run``: name and id of a job. ``by``: the job for which it happened. ``address``: from where the user
        asked for it, if in an earlier ticket.
        """
        origin = address or self.asked.get(user, "")
        event = EventRecord(
            self.wall, kind.value, message, user, job, task, node, schedule, by, run=run, address=origin
        )
        self.changes.events.append(event)
        if self.limits.notify is not None and event.kind in self.limits.notify.kinds:
            source = f"{self.boot}:{self.now!r}:{len(self.changes.events)}:{event.kind}:{message}"
            found = Notification(id=hashlib.sha256(source.encode()).hexdigest()[:32], event=event)
            self.changes.notifications[found.id] = found

    def later(self, seconds: float) -> Moment:
        """Return the moment so many seconds from now, in a form that a later master-agent of this boot understands."""
        return Moment(self.now + seconds, self.boot)
