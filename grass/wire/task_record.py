"""The record of one task that was assigned at least once. Written often, so it is a JSON list of its fields.

Written by the master-agent, read by the API server.
"""

from __future__ import annotations

import msgspec

from grass.model.lifecycle import TaskState
from grass.model.reasons import Reason
from grass.wire.codec import Form
from grass.wire.moment import Moment
from grass.wire.usage import TaskTotals


class TaskRecord(msgspec.Struct, array_like=True):
    """One task and its newest attempt. In the hash ``tasks:<job id>``, by ``<component>.<index>``.

    Not frozen, because the master-agent's memory of a task is its record. No other code changes a record.
    """

    state: TaskState = TaskState.PENDING
    attempt: int = 0
    """Number of the newest attempt, from 1."""
    node: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: Reason | None = None
    started: float | None = None
    """Seconds since the epoch, by the master's clock, as ``ended``."""
    ended: float | None = None
    ports: dict[str, int] = {}
    """Port name → number."""
    restarts: int = 0
    pid: int | None = None
    """Pid of its first process on the node."""
    sizes: dict[str, int] | None = None
    """``stdout`` and ``stderr`` → bytes, of an attempt that has ended."""
    ready: bool = False
    gpus: tuple[tuple[int, int], ...] = ()
    """(device id, thousandths of it) of each device."""
    not_before: Moment | None = None
    """When it may start again. Only the master-agent reads this field and those below."""
    seq: int = 0
    """Position in the starting order on its node."""
    preempted: Reason | None = None
    """Why its attempt is being stopped while the job goes on. ``user-stopped``: the task ends as STOPPED; otherwise
    it was preempted, and is placed again."""
    usage: TaskTotals | None = None
    """What its ended attempts used together. The API reads it, too. None: nothing was measured."""
    released: bool = False
    """Whether it is no longer a task of its component, because that was scaled in. However its attempt ends, the task
    is then STOPPED."""
    assigned: float | None = None
    """When its newest attempt got its node, in seconds since the epoch."""
    prepared: float | None = None
    """When the image of its newest attempt was there, if it had to wait for the image."""
    software: dict[str, str] | None = None
    """What its newest attempt ran with: ``image`` (digest), versions of GPU ``driver``, ``grass``, ``kernel``; the
    ``machine`` of its pod."""
    address: str | None = None
    """The address of its newest attempt where it is not that of its node: in a pod, once the pod has one."""
    log_gaps: int = 0
    """Places in the output of its newest attempt where lines are missing, since that has ended."""

    @property
    def serves(self) -> bool:
        """Return whether its attempt runs and is ready. A LOST attempt was ready once."""
        return self.ready and self.state is TaskState.RUNNING


TASK_RECORD: Form[TaskRecord] = Form(TaskRecord)
