"""What a task is told before it is stopped: a line of JSON in the file that ``GRASS_EVENTS`` names.

Written by the node-agent, read by the task.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class TaskNotice(msgspec.Struct, frozen=True, kw_only=True):
    """The task is stopped at ``until``, or once it says that it is done (``POST /v1/done``)."""

    event: str
    """``leave``."""
    reason: str
    until: float
    """Seconds since the epoch, by the clock of the node."""


TASK_NOTICE: Form[TaskNotice] = Form(TaskNotice)
