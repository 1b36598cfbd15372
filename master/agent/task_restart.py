"""What follows the end of an attempt: whose fault it is counts first, then exit codes, then the restart policy. Pure.

``docs/guide/failures.md`` has the same as a table. Used by ``tasks``.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from grass.model.job import Restart, RestartOn
from grass.model.reasons import FailureClass, Reason, ReasonCode

OF_KUBERNETES = frozenset(
    {ReasonCode.EVICTED, ReasonCode.NOT_STARTED, ReasonCode.UNSCHEDULABLE, ReasonCode.NAMESPACE_QUOTA}
)
"""Kubernetes ended its pod, or did not run it for too long. (Only a task of a gang waits for a quota not for ever.)"""
NOT_ITS_FAULT = frozenset(
    {ReasonCode.NODE_REBOOTED, ReasonCode.NODE_STOPPED, ReasonCode.PORT_TAKEN, ReasonCode.SHARE}
    | {ReasonCode.UNRECORDED}
    | OF_KUBERNETES
)
"""The task starts again, whatever its restart policy, and no restart is counted."""
_MOST_BLAMED = 3
"""Nodes that a task may blame by what it prints, each once; and its failures on one node that are excused by what the
node measures. A program that always fails so must come to an end."""


class Next(Enum):
    EXCUSED = "excused"
    """It starts again, whatever its restart policy, and no restart is counted."""
    BLAMED = "blamed"
    """The same: its node is at fault."""
    RESTART = "restart"
    REPEATED = "repeated"
    """It would start again, but another node gave the same error within a minute. It ends."""
    END = "end"


class Blamed(NamedTuple):
    """What is known of a node on which a task failed."""

    node: str = ""
    before: tuple[str, ...] = ()
    """The nodes whose fault earlier failures of the task were."""
    measured: bool = False
    """Whether it is measured to be broken. Otherwise only the task says so."""

    @property
    def believed(self) -> bool:
        if self.measured:
            return self.before.count(self.node) < _MOST_BLAMED
        return self.node not in self.before and len(self.before) < _MOST_BLAMED


class End(NamedTuple):
    """How an attempt of a task ended, and what is known of its component."""

    code: int | None
    signal: int | None
    failure: Reason | None
    """None: it ended well."""
    restarts: int = 0
    """Those that were counted."""
    node: Blamed = Blamed()
    repeated: bool = False
    """Whether another node gave the same error within a minute."""
    final: bool = False
    """Whether the task itself said, by its exit code, that it does not start again."""


def what_follows(policy: Restart, end: End) -> Next:
    """Decide about a task that ended."""
    failure = end.failure
    if failure is not None and failure.code in NOT_ITS_FAULT:
        return Next.EXCUSED
    if end.final:
        return Next.END
    if failure is not None and failure.code is ReasonCode.CANNOT_START:
        return Next.END
    if failure is not None and _is_of_node(failure.failure, end):
        return Next.BLAMED
    if not _wanted(policy, end) or (policy.limit is not None and end.restarts >= policy.limit):
        return Next.END
    return Next.REPEATED if end.repeated and _gives_up(policy) else Next.RESTART


def _is_of_node(failure: FailureClass | None, end: End) -> bool:
    measured = failure is FailureClass.NETWORK and end.node.measured
    return (measured or failure is FailureClass.HARDWARE) and end.node.believed


def _wanted(policy: Restart, end: End) -> bool:
    if end.failure is None:
        return policy.policy is RestartOn.ALWAYS
    if policy.policy is RestartOn.NEVER:
        return False
    return not policy.codes or (128 + end.signal if end.signal else end.code) in policy.codes


def _gives_up(policy: Restart) -> bool:
    """Return whether the same error on two nodes ends the restarts. Whoever sets no limit, or says which exit codes or
    that all ends start a task again, means it."""
    return policy.policy is RestartOn.ON_FAILURE and policy.limit is not None and not policy.codes
