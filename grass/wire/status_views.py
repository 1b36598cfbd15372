"""The replies of the API about the whole cluster: its state, and what changes in it. The rules of ``views`` apply.

Sent by the API server.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from grass.model.isolation import Isolation
from grass.model.lifecycle import JobState, NodeState
from grass.wire.codec import Form
from grass.wire.event_views import EventView
from grass.wire.node_views import NodeView
from grass.wire.views import JobView, ScheduleView, TaskView


class StoreTrouble(msgspec.Struct, frozen=True):
    """Why the store refuses writes."""

    code: str
    message: str


class Removed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names of what is no longer there."""

    jobs: tuple[str, ...] = ()
    """Job ids."""
    nodes: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()


class ChangePiece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changed since the piece before, each thing as it is now."""

    cursor: str
    """Send it back as ``after`` to continue here."""
    time: float
    """The server's time: seconds since the epoch."""
    snapshot: bool = False
    """Forget all that was known. This piece and those up to ``complete`` have all that there is."""
    complete: bool = True
    """False: more pieces of the snapshot follow."""
    jobs: tuple[JobView, ...] = ()
    tasks: tuple[TaskView, ...] = ()
    """Tasks of the job that is watched."""
    nodes: tuple[NodeView, ...] = ()
    schedules: tuple[ScheduleView, ...] = ()
    events: tuple[EventView, ...] = ()
    removed: Removed = Removed()
    counts: dict[JobState, int] | UnsetType = UNSET
    """Jobs by state that the caller may see; a snapshot has only the newest of them."""
    store: StoreTrouble | UnsetType | None = UNSET
    """Why the store refuses writes; None: it accepts them."""
    pause: float | UnsetType = UNSET
    """Of the last piece, the seconds after which to ask again."""


class DiskView(msgspec.Struct, frozen=True):
    """The space of a disk, in bytes. ``free``: for programs that are not root's."""

    holds: str
    """What is on it: ``state``, ``logs``, or ``state and logs``."""
    free: int
    total: int


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster in numbers, and who is asking."""

    cluster: str
    mode: str
    version: str
    protocol: int
    """What the server speaks."""
    time: float
    user: str
    role: str
    jobs: dict[JobState, int]
    nodes: dict[NodeState, int]
    store: StoreTrouble | None
    """Why the store refuses writes."""
    isolation: Isolation
    """Whether tasks of different users are isolated from each other on the nodes."""
    disks: tuple[DiskView, ...]
    """Those on which the master keeps the cluster's state and logs."""


STATUS: Form[StatusView] = Form(StatusView)
CHANGE_PIECE: Form[ChangePiece] = Form(ChangePiece)
