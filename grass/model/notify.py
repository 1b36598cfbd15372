"""Who is notified of what happened: ``on_end`` and ``on_hang`` of a job, ``notify`` of the cluster's settings. Pure.

Used by ``job``, ``policy``, ``grass.manifest.notify`` and ``master.agent.courier``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from grass.model.event_kind import EventKind
from grass.model.lifecycle import JobState


@dataclass(frozen=True, slots=True)
class OnEnd:
    """What happens once a job has ended. ``secret`` signs the body of the webhook. ``command``: run as a job.

    ``states``: only after such an end (empty: after each).
    """

    webhook: str | None = None
    secret: str | None = None
    command: str | tuple[str, ...] | None = None
    states: tuple[JobState, ...] = ()

    def follows(self, state: JobState) -> bool:
        """Return whether it happens after an end in this state."""
        return not self.states or state in self.states


class OnHang(str, Enum):
    """What happens when a job stands still (``grass.wire.finding``)."""

    LOG = "log"  # `grass job why` and the log of the monitor say it
    NOTIFY = "notify"  # an event, too, which may cause a notification
    ACT = "act"  # the job is restarted, too, but not often


DEFAULT_KINDS = tuple(
    kind.value
    for kind in (
        *(EventKind.JOB_SUCCEEDED, EventKind.JOB_FAILED, EventKind.JOB_STOPPED, EventKind.HANG),
        *(EventKind.NODE_LOST, EventKind.NODE_QUARANTINED, EventKind.GPU_QUARANTINE),
    )
)


@dataclass(frozen=True, slots=True)
class Notify:
    """Who is notified of events of the cluster.

    ``command``: run on the master's host. ``secret_file``: a file there; its content signs the webhook's body.

    ``kinds``: of the events that cause a notification.
    """

    webhook: str | None = None
    secret_file: str | None = None
    command: tuple[str, ...] = ()
    kinds: tuple[str, ...] = DEFAULT_KINDS
