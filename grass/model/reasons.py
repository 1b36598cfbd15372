"""Reasons why a task, job or node does not run or accept tasks. Pure.

Typed, and the same from the planner to `grass job why`. A reason is stored and sent as
``{"code": …, "message": …, "details": {…}}``: ``code`` is stable, ``message`` is for people. Used by all packages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypedDict


class ReasonCode(str, Enum):
    """A stable word: scripts, `why` and the dashboard match it."""

    # waiting
    SUBMITTED = "submitted"  # stored, not planned yet
    JOB_LIMIT = "job-limit"  # parallel_level jobs already run
    NO_NODES = "no-nodes"  # no node is READY
    TOO_LARGE = "too-large"  # no node is large enough for one task
    NO_FREE_RESOURCES = "no-free-resources"  # fits an empty node, but not the resources that are free now
    DEPENDS_ON = "depends-on"  # waits for another component
    BACKOFF = "backoff"  # restarts after a delay
    PARALLELISM = "parallelism"  # the component's own limit of concurrent tasks
    AFTER = "after"  # waits for another job
    CHECKING = "checking"  # a node is being checked before tasks start there
    HELD = "held"  # a user holds the job back
    PUT_OFF = "put-off"  # the job was submitted for a later time
    QUOTA = "quota"  # the quota of its user is used up
    CONSTRAINTS = "constraints"  # no node satisfies the task's labels, devices, topology or runtime
    GANG = "gang"  # some of the gang's tasks would fit now, but not all
    BEHIND = "behind"  # would fit, but could delay a job that is served first
    SET_ASIDE = "set-aside"  # planning it failed: an internal error
    PREEMPTING = "preempting"  # tasks of lower priority are being stopped for this job
    PREEMPTED = "preempted"  # stopped for a job of higher priority; queued again
    DRAINED = "drained"  # its node was drained; queued again
    RELEASED = "released"  # removed from its component, which was scaled in
    SUSPENDED = "suspended"  # its job was suspended
    RESTARTED = "restarted"  # its job was restarted
    REPLACED = "replaced"  # starts again, on another node if one accepts tasks
    BELOW_MINIMUM = "below-minimum"  # fewer tasks than `min` run; the job is queued again
    IMAGE = "image"  # waits for its container image
    GANG_INCOMPLETE = "gang-incomplete"  # its gang could not start whole in a namespace; all start together again
    NAMESPACE_QUEUE = "namespace-queue"  # its pod waits in a queue of Kubernetes (Kueue, Volcano)
    NOT_READY = "not-ready"  # the task runs, but its readiness check has not passed yet
    UNSCHEDULABLE = "unschedulable"  # kube-scheduler finds no machine for its pod
    NAMESPACE_QUOTA = "namespace-quota"  # a quota of its Kubernetes namespace is used up
    NOT_STARTED = "not-started"  # its pod was created, and its container does not run yet; of an end: for too long
    # a node that accepts no tasks
    PROBE = "probe"  # has not passed its probe
    PROTOCOL = "protocol"  # speaks another protocol than the master
    VERSION = "version"  # runs another version of Grass than the master
    DISK = "disk"  # its disk is almost full
    RUNTIME = "runtime"  # a runtime does not answer; also the reason of a task that waits for the runtime
    SHARE = "share"  # the share is gone or does not answer; of a task: it waits for it, or ran while it was away
    FLOOD = "flood"  # sent more than a node may; cut off from the store
    SHUTDOWN = "shutdown"  # its machine shuts down
    CHECK = "check"  # a check found a fault of it; ends by a good check, or by `grass node check --release`
    POWERED_OFF = "powered-off"  # its machine was stopped on purpose, so that it costs less
    STUCK = "stuck"  # one of its tasks does not end after KILL, because its process waits in the kernel
    # ended
    EXIT_CODE = "exit-code"
    SIGNAL = "signal"
    CANNOT_START = "cannot-start"  # command not found, not executable, directory missing…
    TIMEOUT = "timeout"
    STOP_CODE = "stop-code"  # a task ended with 65
    COMPONENT_FAILED = "component-failed"
    USER_STOPPED = "user-stopped"
    CARRIED = "carried"  # succeeded in an earlier run, which this run repeats in part
    JOB_ENDED = "job-ended"  # stopped because the job reached its outcome
    EXIT_UNKNOWN = "exit-unknown"  # the process is gone; its exit status is unknown
    PORT_TAKEN = "port-taken"  # another program uses the port; the task gets a new port
    OVERLAP = "overlap"  # for a schedule: a job of the same name has not ended
    AFTER_FAILED = "after-failed"  # the job in `after` did not end as it should
    NODE_LOST = "node-lost"
    NODE_REBOOTED = "node-rebooted"
    EVICTED = "evicted"  # Kubernetes ended its pod: evicted, preempted, or its machine is gone
    UNRECORDED = "unrecorded"  # the master was restored from a backup, and nobody knows what became of the attempt
    NODE_STOPPED = "node-stopped"  # ended with its node's shepherd or container engine, or before a shutdown


class FailureClass(str, Enum):
    """Whose fault an end is. A stable word: restarts follow it, and scripts match it (``failure_class``)."""

    USER_ERROR = "user-error"  # of the program or its input
    OUT_OF_MEMORY = "out-of-memory"  # of the host or of a device
    HARDWARE = "hardware"  # a device or a machine that is broken
    NETWORK = "network"  # another machine could not be reached
    PREEMPTED = "preempted"  # it had to make room, or its node was drained
    NODE = "node"  # its node was lost, rebooted or stopped, or could not run it
    KILLED = "killed"  # by a signal from outside, not by Grass
    TIMEOUT = "timeout"  # ran longer than its limit
    UNKNOWN = "unknown"  # nobody saw its end

    def __str__(self) -> str:
        return self.value.replace("-", " ")


class Details(TypedDict, total=False):
    """What scripts, `why` and the dashboard read beside the message. Each code has a few of them."""

    # which job, run, task or node
    job: str
    jobs: list[str]
    tasks: int
    state: str
    task: str
    component: str
    condition: str
    node: str
    machine: str  # of Kubernetes
    run: str | None
    # what the planner found; ``nodes`` are ``feasibility.NodeGroup``, ``fits`` are resources
    nodes: list[dict[str, Any]]  # Any: counts and names of a group of nodes
    able: int
    fitting: int
    count: int
    capacity: int
    fits: dict[str, Any]  # Any: see the reasons of a gang
    starts_with: str
    starts_in: float
    starts_about: float
    parallel_level: int | None
    resource: str
    needs: int
    largest: int
    quota: int
    used: int
    # how an attempt ended, and when the next one starts; ``limit``: of memory, in bytes, which it exceeded; ``error``:
    # what its own output says of why, which is also at the end of the message; ``failure``: whose fault it is
    failure: FailureClass
    code: int
    signal: int
    limit: int
    error: str
    repeated_on: list[str]  # nodes on which the same error came within a minute, so that it is not restarted
    seconds: float
    cause: Reason | None
    failures: int
    # a node that accepts no tasks; ``checks`` are those of its probe
    protocol: int
    version: str | None
    master_protocol: int
    master: str | None
    folder: str
    package: str
    pid: int
    checks: list[dict[str, Any]]  # Any: a name, a message, and whether it is ok
    level: int
    evidence: list[str]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something does not run. ``message``: a sentence for people; nothing depends on it."""

    code: ReasonCode
    message: str
    details: Details = field(default_factory=Details, compare=False)

    @property
    def failure(self) -> FailureClass | None:
        """Return whose fault it is; None: it says of no attempt that it ended without success."""
        found = self.details.get("failure")
        return None if found is None else FailureClass(found)

    def __str__(self) -> str:
        return self.message

    def to_wire(self) -> dict[str, object]:
        return {"code": self.code.value, "message": self.message, "details": self.details}

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Reason:  # Any: decoded JSON
        return cls(ReasonCode(wire["code"]), wire["message"], wire.get("details", {}))
