"""The stream of the API of what changes in the cluster. The rules of ``views`` apply. Sent by the API server."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from grass.model.lifecycle import JobState
from grass.wire.codec import Form
from grass.wire.event_views import EventView
from grass.wire.job_views import JobView, TaskView
from grass.wire.node_views import NodeView
from grass.wire.status_views import StoreTrouble
from grass.wire.views import ScheduleView


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


CHANGE_PIECE: Form[ChangePiece] = Form(ChangePiece)
