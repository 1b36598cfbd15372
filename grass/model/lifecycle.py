"""The states of jobs, tasks and nodes, and the only table of legal transitions. Pure.

Used by ``grass`` and ``master``.
"""

from __future__ import annotations

from enum import Enum


class _State(str, Enum):
    """Prints as its name in every version of Python."""

    def __str__(self) -> str:
        return str(self.value)


class JobState(_State):
    """Ended: SUCCEEDED, FAILED and STOPPED."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"

    @property
    def ended(self) -> bool:
        return self in _JOB_ENDED


class TaskState(_State):
    """Ended: SUCCEEDED, FAILED and STOPPED. A LOST task is placed again, or fails."""

    PENDING = "PENDING"
    ASSIGNED = "ASSIGNED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    LOST = "LOST"

    @property
    def ended(self) -> bool:
        return self in _TASK_ENDED

    @property
    def on_node(self) -> bool:
        """Return whether the task's attempt may exist on a node, so that its resources stay allocated."""
        return self in _TASK_ON_NODE


class NodeState(_State):
    """Tasks go on while their node is SILENT; they are replaced once it is LOST. A STOPPED node has no tasks."""

    JOINING = "JOINING"
    READY = "READY"
    SILENT = "SILENT"
    LOST = "LOST"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    QUARANTINED = "QUARANTINED"
    STOPPED = "STOPPED"
    LEFT = "LEFT"


_JOB_ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED})
_TASK_ENDED = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED})
_TASK_ON_NODE = frozenset({TaskState.ASSIGNED, TaskState.RUNNING})

JOB_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    # QUEUED → STOPPING never happens: a queued job has no attempts to wait for and stops at once. A running job goes
    # back only when all its attempts have ended: by an operation (suspend, restart, requeue), or to start again after a
    # failure (`restart` of the job). After losing every task it stays RUNNING, with pending tasks and a reason.
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.SUCCEEDED, JobState.STOPPED})
    | {JobState.FAILED},
    JobState.RUNNING: frozenset({JobState.STOPPING, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED})
    | {JobState.SUSPENDED, JobState.QUEUED},
    JobState.SUSPENDED: frozenset({JobState.QUEUED, JobState.STOPPED, JobState.FAILED}),
    # A STOPPING job has an outcome (`JobRun.outcome`): the state in which it ends once no attempt is left on any node.
    JobState.STOPPING: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED, JobState.QUEUED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.STOPPED: frozenset(),
}

_ATTEMPT_ENDS = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED, TaskState.LOST, TaskState.PENDING})

TASK_TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.PENDING: frozenset({TaskState.ASSIGNED, TaskState.STOPPED}),
    TaskState.ASSIGNED: frozenset({TaskState.RUNNING}) | _ATTEMPT_ENDS,
    TaskState.RUNNING: _ATTEMPT_ENDS,
    # A lost attempt is replaced (PENDING), given up (FAILED, STOPPED), or returns with its node.
    TaskState.LOST: frozenset(
        {
            TaskState.PENDING,
            TaskState.ASSIGNED,
            TaskState.FAILED,
            TaskState.STOPPED,
            TaskState.RUNNING,
            TaskState.SUCCEEDED,
        }
    ),
    # An ended task starts again only with its whole job, or when a scale-out takes its index again.
    TaskState.SUCCEEDED: frozenset({TaskState.PENDING}),
    TaskState.FAILED: frozenset({TaskState.PENDING}),
    TaskState.STOPPED: frozenset({TaskState.PENDING}),
}

NODE_TRANSITIONS: dict[NodeState, frozenset[NodeState]] = {
    NodeState.JOINING: frozenset({NodeState.READY, NodeState.LEFT}),
    NodeState.READY: frozenset({NodeState.SILENT, NodeState.DRAINING, NodeState.QUARANTINED, NodeState.LEFT}),
    # A drained node falls silent while its machine is turned off, before anybody can say that it is.
    NodeState.SILENT: frozenset({NodeState.READY, NodeState.LOST, NodeState.STOPPED, NodeState.LEFT}),
    NodeState.LOST: frozenset({NodeState.READY, NodeState.STOPPED, NodeState.LEFT}),
    NodeState.DRAINING: frozenset({NodeState.DRAINED, NodeState.READY, NodeState.SILENT, NodeState.LEFT}),
    NodeState.DRAINED: frozenset({NodeState.READY, NodeState.SILENT, NodeState.STOPPED, NodeState.LEFT}),
    NodeState.QUARANTINED: frozenset({NodeState.READY, NodeState.SILENT, NodeState.DRAINING, NodeState.LEFT}),
    NodeState.STOPPED: frozenset({NodeState.READY, NodeState.LEFT}),
    NodeState.LEFT: frozenset({NodeState.JOINING}),
}


class IllegalTransitionError(AssertionError):
    """An internal error: a transition that the table does not allow."""


def check_job(before: JobState, after: JobState) -> None:
    if after not in JOB_TRANSITIONS[before]:
        raise IllegalTransitionError(f"job: {before.value} → {after.value}")


def check_task(before: TaskState, after: TaskState) -> None:
    if after not in TASK_TRANSITIONS[before]:
        raise IllegalTransitionError(f"task: {before.value} → {after.value}")


def check_node(before: NodeState, after: NodeState) -> None:
    if after not in NODE_TRANSITIONS[before]:
        raise IllegalTransitionError(f"node: {before.value} → {after.value}")
