"""All work queues of the cluster in memory: who may do what, what a step changes, and what of it is to be written.

Reads the store, and writes nothing: who uses it writes what ``writes`` returns. Used by ``queue_desk``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError
from grass.model.exhaustive import assert_never
from grass.model.names import is_job_id, is_name
from grass.store.api_store import ApiStore
from grass.store.backend import Op
from grass.store.keys import SNAPSHOTS_KEPT
from grass.store.queue_store import TALLY
from grass.system import clock
from grass.wire.keys import AttemptKey, TaskKey
from grass.wire.queue_api import (
    Create,
    Delete,
    Extend,
    Finish,
    Get,
    LeasedItem,
    Look,
    Put,
    QueueAnswer,
    QueueRecord,
    QueueStep,
    QueueView,
    Restore,
    Revive,
    Snapshot,
    TallyRecord,
)
from master.api.queue_state import WorkQueue, size

MOST_QUEUES, MOST_OF_USER = 1_000, 100
MOST_BYTES = 64 << 20
"""Of all queues of a user, with their snapshots."""
LOOK_AGAIN = 1.0
"""Seconds between two looks at whether the attempts that hold items of a queue go on."""
_SHOWN = 1_000


@dataclass(frozen=True)
class Asked:
    """A step that was asked for.

    ``user``: on whose behalf; None: of an administrator. ``until``: steady time up to which it may wait. ``node``,
    ``entry``, ``job``: of a step of a task: whose agent waits, where it is in the store, and which job.
    """

    queue: str
    step: QueueStep
    user: str | None
    holder: str
    until: float
    id: str
    node: str = ""
    entry: str = ""
    job: str = ""


class Book:
    """All queues. For one thread."""

    def __init__(self, store: ApiStore, wall: Callable[[], float]) -> None:
        self._store = store
        self._queues = store.queues
        self._wall = wall
        self.ops: list[Op] = []
        """Writes besides those of items."""
        self.touched: set[str] = set()
        """Queues whose items may differ from the store."""
        self.written = 0
        """Characters of large writes."""
        self._records = self._queues.records()
        self._loaded: dict[str, WorkQueue] = {}
        self._users: dict[str, str] = {}
        self._looked: dict[str, float] = {}
        self._kept: dict[tuple[str, str], str] = {}
        """Snapshots that are not written yet, as they are written."""

    def writes(self) -> list[Op]:
        """Return what is to be written, once."""
        ops, self.ops, self.written = self.ops, [], 0
        for name in self.touched:
            queue = self._loaded[name]
            if queue.changed:
                ops += self._queues.changed(name, queue.items, queue.changed, queue.tally)
                queue.changed.clear()
        self.touched.clear()
        self._kept.clear()
        return ops

    def loaded(self, name: str) -> WorkQueue | None:
        """Return a queue that exists and was used."""
        return self._loaded.get(name)

    def look(self, name: str) -> None:
        """End the leases of a queue that are over."""
        if (queue := self._loaded.get(name)) is not None:
            self.touched.add(name)
            self._end_leases(name, queue)

    def remove_with_jobs(self) -> None:
        """Remove the queues of jobs that are not kept any more."""
        for name, record in list(self._records.items()):
            if record.job and self._store.run(record.job) is None:
                self._remove(name)

    def user_of(self, job_id: str) -> str:
        if job_id not in self._users:
            run = self._store.run(job_id)
            if run is None:
                raise NotFoundError(f"job {job_id}: not found")
            if len(self._users) > _SHOWN:
                self._users.clear()
            self._users[job_id] = run.user
        return self._users[job_id]

    def step(self, asked: Asked) -> QueueAnswer:
        """Carry out a step. Raises GrassError; then nothing has changed."""
        if isinstance(asked.step, Create):
            return _answer(self._create(asked, asked.step))
        queue = self._found(asked)
        self.touched.add(asked.queue)
        queue.expire(self._wall())
        match asked.step:
            case Put() | Get() | Finish() | Extend() | Revive():
                return self._of_items(queue, asked, asked.step)
            case Snapshot(name=snapshot):
                self._keep(asked.queue, queue, snapshot)
            case Restore(name=snapshot):
                queue = self._restore(asked.queue, queue, snapshot)
            case Look():
                self._end_leases(asked.queue, queue)
            case Delete():
                self._remove(asked.queue)
            case _:
                assert_never(asked.step)
        return _answer(queue)

    def _of_items(self, queue: WorkQueue, asked: Asked, step: Put | Get | Finish | Extend | Revive) -> QueueAnswer:
        match step:
            case Put():
                more = sum(size(each.name or "", each.value) for each in step.items)
                self._check_room(asked.user or queue.record.user, more)
                return _answer(queue, _named(asked.queue, lambda: queue.put(step.items)))
            case Get():
                return self._get(queue, asked, step)
            case Finish(how="ack"):
                return _answer(queue, queue.acknowledge(step.lease, asked.holder, step.names))
            case Finish():
                why, bury = "its holder gave it up", step.how == "dead"
                return _answer(queue, queue.give_back(step.lease, asked.holder, step.names, why, bury=bury))
            case Extend():
                until = self._until(queue, step)
                return _answer(queue, queue.extend(step.lease, asked.holder, step.names, until), until=until)
            case Revive():
                return _answer(queue, queue.revive(step.names))
        assert_never(step)

    def _until(self, queue: WorkQueue, step: Get | Extend) -> float:
        return self._wall() + (step.seconds or queue.record.lease)

    def _create(self, asked: Asked, step: Create) -> WorkQueue:
        name = asked.queue
        job, _, own = name.rpartition(":")
        if not is_name(own) or (job and not is_job_id(job)):
            raise InputError(f"queue {name!r}: this is no name; use letters, digits and -_., or JOB_ID:NAME")
        known = self._records.get(name)
        if known is not None:
            queue = self._found(asked)
            if (known.lease, known.tries) != (step.lease, step.tries):
                raise ConflictError(f"queue {name}: exists with lease {known.lease:g} s and {known.tries} tries")
            return queue
        user = asked.user or asked.holder.removeprefix("user:")
        if job and (job != asked.job and self.user_of(job) != user):
            raise NotAllowedError(f"queue {name}: job {job} is of another user")
        if (
            len(self._records) >= MOST_QUEUES
            or sum(each.user == user for each in self._records.values()) >= MOST_OF_USER
        ):
            raise ConflictError(f"queue {name}: there are too many; a user may have {MOST_OF_USER}; delete some")
        record = QueueRecord(user=user, created=self._wall(), lease=step.lease, tries=step.tries, job=job)
        self._records[name] = record
        self._loaded[name] = WorkQueue(record, {}, TallyRecord())
        self.ops += self._queues.made(name, record)
        return self._loaded[name]

    def _found(self, asked: Asked) -> WorkQueue:
        """Return a queue that the caller may use."""
        record = self._records.get(asked.queue)
        if record is None:
            raise NotFoundError(f"queue {asked.queue}: not found; `grass queue create` makes one")
        if asked.user is not None and record.user != asked.user:
            raise NotAllowedError(f"queue {asked.queue}: belongs to another user; choose another name")
        return self._load(asked.queue)

    def _load(self, name: str) -> WorkQueue:
        if name not in self._loaded:
            self._loaded[name] = WorkQueue(self._records[name], *self._queues.items(name))
        return self._loaded[name]

    def _get(self, queue: WorkQueue, asked: Asked, step: Get) -> QueueAnswer:
        lease, until = step.id or asked.id, self._until(queue, step)
        items: list[LeasedItem] = []
        if not self._loses(queue, asked):
            items = queue.get(step.count, lease, asked.holder, until)
        if not items and queue.leased and self._end_leases(asked.queue, queue) and not self._loses(queue, asked):
            items = queue.get(step.count, lease, asked.holder, until)
        return _answer(queue, items=tuple(items), lease=lease if items else "", until=until if items else 0.0)

    def _loses(self, queue: WorkQueue, asked: Asked) -> bool:
        """Return whether an item would lose a further try to an attempt that has ended since it asked. Only items that
        have lost one before are worth the look."""
        return queue.next_was_tried and bool(self.ended([asked.holder]))

    def _end_leases(self, name: str, queue: WorkQueue) -> bool:
        """End leases that are over, and those of attempts that have ended: looked for once a second. Return whether
        items are ready now."""
        queue.expire(self._wall())
        if clock.steady() - self._looked.get(name, 0.0) < LOOK_AGAIN:
            return queue.ready > 0
        self._looked[name] = clock.steady()
        for holder in self.ended(queue.holders):
            queue.reclaim(holder)
        return queue.ready > 0

    def ended(self, holders: Iterable[str]) -> list[str]:
        """Return those holders that are attempts which have ended."""
        jobs: dict[str, list[AttemptKey]] = {}
        for holder in holders:
            if not holder.startswith("user:"):
                key = AttemptKey.parse(holder)
                jobs.setdefault(key.job_id, []).append(key)
        found: list[str] = []
        for job_id, keys in jobs.items():
            tasks = self._store.some_tasks(job_id, [str(key.task) for key in keys])
            for key in keys:
                task = tasks.get(TaskKey(key.component, key.index))
                if task is None or task.attempt != key.attempt or not task.state.on_node:
                    found.append(str(key))
        return found

    def _check_room(self, user: str, more: int) -> None:
        """Raise ConflictError if the queues of a user would take too much."""
        own = [self._load(name) for name, record in self._records.items() if record.user == user]
        if sum(queue.bytes + sum(queue.tally.kept.values()) for queue in own) + more > MOST_BYTES:
            most = f"{MOST_BYTES >> 20} MiB"
            raise ConflictError(f"the queues of {user} would take more than {most}; finish items, or delete snapshots")

    def _keep(self, name: str, queue: WorkQueue, snapshot: str) -> None:
        kept = queue.tally.kept
        ops, text = self._queues.kept(name, snapshot, queue.undone())
        taken = len(text)
        self._check_room(queue.record.user, taken - kept.get(snapshot, 0))
        kept.pop(snapshot, None)
        if len(kept) >= SNAPSHOTS_KEPT:
            oldest = next(iter(kept))
            del kept[oldest]
            self.ops += self._queues.dropped(name, oldest)
        kept[snapshot] = taken
        self._kept[name, snapshot] = text
        queue.changed.add(TALLY)
        self.ops += ops
        self.written += taken

    def _restore(self, name: str, queue: WorkQueue, snapshot: str) -> WorkQueue:
        items = self._queues.snapshot(name, snapshot, self._kept.get((name, snapshot)))
        if snapshot not in queue.tally.kept or items is None:
            raise NotFoundError(
                f"queue {name}: has no snapshot {snapshot}; it has {', '.join(queue.tally.kept) or 'none'}"
            )
        number = max(queue.tally.number, *(item.number for item in items.values()), 0)
        restored = WorkQueue(queue.record, items, TallyRecord(number, 0, queue.tally.kept))
        restored.changed = {TALLY, *items}
        self._loaded[name] = restored
        self.ops += self._queues.cleared(name)
        self.written += restored.bytes
        return restored

    def _remove(self, name: str) -> None:
        self._records.pop(name, None)
        self._loaded.pop(name, None)
        self._looked.pop(name, None)
        self.touched.discard(name)
        self.ops += self._queues.removed(name)

    def views(self, sees: Callable[[str], bool], wanted: str | None) -> list[QueueView]:
        names = sorted(self._records) if wanted is None else [wanted] if wanted in self._records else []
        return [self._view(name, items=wanted is not None) for name in names if sees(self._records[name].user)]

    def _view(self, name: str, *, items: bool) -> QueueView:
        record, queue = self._records[name], self._load(name)
        return QueueView(
            name=name,
            user=record.user,
            job=record.job,
            created=record.created,
            lease=record.lease,
            tries=record.tries,
            ready=queue.ready,
            leased=queue.leased,
            dead=queue.dead,
            done=queue.tally.done,
            bytes=queue.bytes,
            snapshots=tuple(queue.tally.kept),
            items=queue.views(_SHOWN) if items else (),
        )


def _answer(
    queue: WorkQueue,
    names: Iterable[str] = (),
    *,
    items: tuple[LeasedItem, ...] = (),
    lease: str = "",
    until: float = 0.0,
) -> QueueAnswer:
    return QueueAnswer(
        ready=queue.ready,
        leased=queue.leased,
        dead=queue.dead,
        done=queue.tally.done,
        names=tuple(names),
        items=items,
        lease=lease,
        until=until,
    )


def _named(name: str, put: Callable[[], list[str]]) -> list[str]:
    try:
        return put()
    except ConflictError as error:
        raise ConflictError(f"queue {name}: {error}") from error
