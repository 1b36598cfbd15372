"""`/v1/changes`: a snapshot of what the caller may see, then what changes, as one stream. For pages that stay open.

Without ``job``: jobs, nodes, schedules and events of the cluster. With ``job``: that job and its tasks, nothing else.
Used by ``handlers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import UNSET, UnsetType, structs

from grass.store.change_feed import Changed, Cursor
from grass.store.job_index import BEGUN, ENDED, WAITING
from grass.system import clock
from grass.wire.change_views import ChangePiece, Removed
from grass.wire.job_record import JobRecord
from grass.wire.job_views import JobView, TaskView
from grass.wire.schedule_record import ScheduleRecord
from grass.wire.status_views import StoreTrouble
from grass.wire.views import ScheduleView
from master.api.call import Call, Pieces
from master.api.events import EventFilter
from master.api.feed import PAUSE
from master.api.job_changes import find_job
from master.api.redaction import Redaction
from master.api.status import store_trouble
from master.api.views import all_records, event_view, job_view, known_tasks, node_view, schedule_view, task_views

ACTIVE, FINISHED = 500, 200
"""Jobs in a snapshot, at most; the newest."""
EVENTS = 200
"""Events in a snapshot, at most; the newest."""
AT_ONCE = 200
"""Nodes, or tasks, in one piece of a snapshot."""
STORE_CHECK = 10.0
"""Seconds between two checks whether the store accepts writes."""


def follow_changes(call: Call) -> Pieces:
    after = None if call.query["after"] is None else Cursor.parse(call.query["after"])
    name = call.query["job"]
    if name is None:
        return _follow(call, _Cluster(call), after)
    return _follow(call, _WatchedJob(call, find_job(call, name).id), None)  # the job may have other tasks meanwhile


class _OutdatedError(Exception):
    """Only a new snapshot can say what changed."""


def _follow(call: Call, source: _Cluster | _WatchedJob, after: Cursor | None) -> Pieces:
    feed = call.api.store.change_feed
    with call.waiting() as granted, call.api.pace.running():
        cursor = after if after is not None and feed.reaches(after) else None
        begun = clock.thread_cpu()
        while True:
            if cursor is None:
                cursor = feed.now()
                for piece in source.snapshot(cursor):
                    cursor = Cursor.parse(piece.cursor)
                    yield piece
            if not granted or call.api.feed.closed:
                yield ChangePiece(cursor=str(cursor), time=call.api.wall(), pause=0.0 if granted else PAUSE)
                return
            clock.sleep(call.api.pace.rest(clock.thread_cpu() - begun))
            found = feed.after(cursor, call.api.waits.poll)
            begun = clock.thread_cpu()
            cursor = None
            if found is not None:
                with suppress(_OutdatedError):
                    news = source.piece(*found)
                    cursor = found[1] if news is None else Cursor.parse(news.cursor)
                    yield news or ChangePiece(cursor=str(cursor), time=call.api.wall())


class _Cluster:
    """All that the caller may see, without tasks."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._store = call.api.store
        self._events = EventFilter(call, None)
        self._checked = float("-inf")
        self._trouble: StoreTrouble | UnsetType | None = UNSET

    def snapshot(self, cursor: Cursor) -> Iterator[ChangePiece]:
        call, store = self._call, self._store
        chosen = [*store.job_index.newest([[*BEGUN, *WAITING]], call.scope, ACTIVE, None)]
        chosen += store.job_index.newest([ENDED], call.scope, FINISHED, None)
        events = store.events_before(None, EVENTS)[::-1]
        cursor = Cursor(cursor.feed, events[-1].id if events else cursor.events)
        nodes = [node_view(record) for record in store.nodes()]
        yield ChangePiece(
            cursor=str(cursor),
            time=call.api.wall(),
            snapshot=True,
            complete=len(nodes) <= AT_ONCE,
            jobs=self._jobs(chosen),
            nodes=tuple(nodes[:AT_ONCE]),
            schedules=self._schedules(store.schedules()),
            events=tuple(event_view(event) for event in self._events.matching(events)),
            counts=store.job_index.counts(call.scope),
            store=self._store_trouble(),
        )
        for at in range(AT_ONCE, len(nodes), AT_ONCE):
            complete = at + AT_ONCE >= len(nodes)
            part = tuple(nodes[at : at + AT_ONCE])
            yield ChangePiece(cursor=str(cursor), time=call.api.wall(), complete=complete, nodes=part)

    def piece(self, changed: Changed, cursor: Cursor) -> ChangePiece | None:
        call, store, known = self._call, self._store, self._trouble
        jobs = self._jobs(sorted(changed.jobs))
        gone = sorted(job_id for job_id, user in changed.removed.items() if call.sees(user))
        nodes = {record.name: node_view(record) for record in store.some_nodes(sorted(changed.nodes))}
        found = (store.schedule(name) for name in sorted(changed.schedules))
        schedules = self._schedules(record for record in found if record is not None)
        gone_schedules = {name for name, user in changed.removed_schedules.items() if call.sees(user)}
        events = store.events(cursor.events) if changed.events else []
        cursor = Cursor(cursor.feed, events[-1].id if events else cursor.events)
        trouble = self._store_trouble()
        piece = ChangePiece(
            cursor=str(cursor),
            time=call.api.wall(),
            jobs=jobs,
            nodes=tuple(nodes.values()),
            schedules=schedules,
            events=tuple(event_view(event) for event in self._events.matching(events)),
            removed=Removed(
                tuple(gone),
                tuple(sorted(changed.nodes - nodes.keys())),
                tuple(sorted(gone_schedules - {view.name for view in schedules})),
            ),
            counts=store.job_index.counts(call.scope) if changed.jobs or changed.removed else UNSET,
            store=UNSET if trouble == known else trouble,
        )
        nothing = ChangePiece(cursor=piece.cursor, time=piece.time)
        return None if piece == nothing and not (changed.jobs or changed.events) else piece

    def _jobs(self, job_ids: Sequence[str]) -> tuple[JobView, ...]:
        """Return those jobs that the caller may see."""
        redaction, runs = Redaction(self._call), self._store.runs(job_ids)
        return tuple(job_view(redaction.job(record)) for record in runs if self._call.sees(record.user))

    def _schedules(self, records: Iterable[ScheduleRecord]) -> tuple[ScheduleView, ...]:
        """Return those schedules that the caller may see."""
        return tuple(schedule_view(record) for record in records if self._call.sees(record.user))

    def _store_trouble(self) -> StoreTrouble | UnsetType | None:
        if clock.steady() - self._checked >= STORE_CHECK:
            self._checked, self._trouble = clock.steady(), store_trouble(self._call)
        return self._trouble


class _WatchedJob:
    """One job and its tasks."""

    def __init__(self, call: Call, job_id: str) -> None:
        self._call = call
        self._store = call.api.store
        self._id = job_id
        self._indexes: dict[str, list[int]] = {}
        """Component → its tasks, as of the snapshot."""

    def snapshot(self, cursor: Cursor) -> Iterator[ChangePiece]:
        record, spec = self._record(), self._store.spec(self._id)
        head = ChangePiece(cursor=str(cursor), time=self._call.api.wall(), snapshot=True)
        if record is None or spec is None:
            yield structs.replace(head, removed=Removed((self._id,)))
            return
        self._indexes = _indexes(record)
        redaction = Redaction(self._call)
        known = {key: redaction.task(task) for key, task in self._store.tasks(self._id).items()}
        tasks = task_views(record, spec, all_records(record, spec, known))
        for at in range(0, max(1, len(tasks)), AT_ONCE):
            yield structs.replace(
                head,
                snapshot=at == 0,
                complete=at + AT_ONCE >= len(tasks),
                jobs=(job_view(record),) if at == 0 else (),
                tasks=tuple(tasks[at : at + AT_ONCE]),
            )

    def piece(self, changed: Changed, cursor: Cursor) -> ChangePiece | None:
        if self._id not in changed.jobs | changed.tasks.keys() | changed.removed.keys():
            return None
        head = ChangePiece(cursor=str(cursor), time=self._call.api.wall())
        record = self._record()
        if record is None:
            return structs.replace(head, removed=Removed((self._id,)))
        if _indexes(record) != self._indexes:
            raise _OutdatedError("the job was scaled")
        return structs.replace(head, jobs=(job_view(record),), tasks=self._tasks(record, changed))

    def _tasks(self, record: JobRecord, changed: Changed) -> tuple[TaskView, ...]:
        redaction = Redaction(self._call)
        found = self._store.some_tasks(self._id, sorted(changed.tasks.get(self._id, ())))
        return tuple(known_tasks(record, {key: redaction.task(task) for key, task in found.items()}))

    def _record(self) -> JobRecord | None:
        record = self._store.run(self._id)
        return None if record is None else Redaction(self._call).job(record)


def _indexes(record: JobRecord) -> dict[str, list[int]]:
    return {name: list(part.indexes) for name, part in record.components.items()}
