"""Merges pieces of the change feed: the newest version of each thing, and what is gone. Pure.

One that is never emptied is the state of the cluster; one that a reader empties has what is new for this reader.
Used by ``app`` and ``mirror``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from msgspec import UNSET

from grass.wire.change_views import ChangePiece
from grass.wire.event_views import EventView
from grass.wire.job_views import JobView, TaskView
from grass.wire.node_views import NodeView
from grass.wire.views import ScheduleView

Message = dict[str, object]
"""What a reader gets: things by kind, as lists of views; what is gone; events; and what is said once."""
Thing = JobView | TaskView | NodeView | ScheduleView
KINDS = ("jobs", "tasks", "nodes", "schedules")
MOST_JOBS = 2_000
"""Jobs that are kept. Finished jobs that ended first are dropped first."""
MOST_EVENTS = 500
_LASTING = ("link", "me")
"""What a snapshot does not replace: it is said by the mirror."""


class MergedFeed:
    """Things by kind and name, as they are now."""

    def __init__(self) -> None:
        self._complete = True
        self._clear(snapshot=False)

    def __bool__(self) -> bool:
        return self._fresh

    def _clear(self, *, snapshot: bool) -> None:
        self._fresh = snapshot
        self._snapshot = snapshot
        self._things: dict[str, dict[str, Thing]] = {kind: {} for kind in KINDS}
        self._removed: dict[str, dict[str, None]] = {kind: {} for kind in KINDS}
        self._events: deque[EventView] = deque(maxlen=MOST_EVENTS)
        self._single: Message = {}

    def add(self, piece: ChangePiece) -> None:
        """Merge one piece. A piece that has only the time is not news."""
        if piece.snapshot:
            self.forget()
        for kind, things in _things_of(piece).items():
            self._things[kind].update(things)
            for name in things:
                self._removed[kind].pop(name, None)
        for kind, names in _gone_in(piece).items():
            for name in names:
                self._things[kind].pop(name, None)
                if not self._snapshot:  # what is not in a snapshot is gone anyway, and the state is one forever
                    self._removed[kind][name] = None
        self._events.extend(piece.events)
        single = {"time": piece.time, "counts": piece.counts, "store": piece.store}
        self._single.update((name, value) for name, value in single.items() if value is not UNSET)
        if piece.complete != self._complete:  # a snapshot of many jobs comes in several pieces
            self._complete = self._single["complete"] = piece.complete
            self._fresh = True
        self._fresh |= piece != ChangePiece(cursor=piece.cursor, time=piece.time, complete=piece.complete)
        self._drop_old_jobs()

    def say(self, name: str, what: Message) -> None:
        """Merge what the mirror says, not the cluster: ``link`` or ``me``."""
        self._single[name] = what
        self._fresh = True

    def forget(self) -> None:
        """Begin a snapshot: forget all that is known of the cluster."""
        lasting = {name: self._single[name] for name in _LASTING if name in self._single}
        self._clear(snapshot=True)
        self._single = lasting

    def _drop_old_jobs(self) -> None:
        jobs = self._things["jobs"]
        if len(jobs) > MOST_JOBS:
            ended = [job for job in jobs.values() if isinstance(job, JobView) and job.state.ended]
            ended.sort(key=lambda job: (job.ended or 0.0, job.id))
            for job in ended[: len(jobs) - MOST_JOBS]:
                del jobs[job.id]

    def opened(self, now: float) -> MergedFeed:
        """Return the feed of a new reader, whose first message has all of this one as a snapshot. ``now``: its time."""
        feed = MergedFeed()
        feed.forget()
        feed._things = {kind: dict(things) for kind, things in self._things.items()}
        feed._complete = self._complete
        feed._events.extend(self._events)
        feed._single = {**self._single, "time": now} if "time" in self._single else dict(self._single)
        return feed

    def drain(self) -> Message:
        """Return what was merged since the last call."""
        message = dict(self._single)
        for kind, things in self._things.items():
            if things:
                message[kind] = list(things.values())
        removed = {kind: list(names) for kind, names in self._removed.items() if names}
        if removed:
            message["removed"] = removed
        if self._events:
            message["events"] = list(self._events)
        if self._snapshot:
            message["snapshot"] = True
        self._clear(snapshot=False)
        return message


def _things_of(piece: ChangePiece) -> Mapping[str, Mapping[str, Thing]]:
    return {
        "jobs": {job.id: job for job in piece.jobs},
        "tasks": {task.task: task for task in piece.tasks},
        "nodes": {node.name: node for node in piece.nodes},
        "schedules": {schedule.name: schedule for schedule in piece.schedules},
    }


def _gone_in(piece: ChangePiece) -> Mapping[str, tuple[str, ...]]:
    gone = piece.removed
    return {"jobs": gone.jobs, "nodes": gone.nodes, "schedules": gone.schedules}
