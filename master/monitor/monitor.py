"""The monitor's work: take the samples of all nodes, keep histories, and know the newest figures for ``/metrics``.

Called every 2 s by ``__main__``, in one thread. Histories are written every 10 s, in one step with the position in each
usage stream, so a monitor that is killed neither loses nor repeats a sample: nodes keep two minutes of them. Used by
``__main__``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from grass.errors import UndecodableError, UnreachableError
from grass.store.backend import Op
from grass.store.history_store import HistoryStore, Sampled
from grass.store.keys import HISTORY_CHUNKS_KEPT, HISTORY_JOBS_KEPT
from grass.store.records import Records
from grass.system import clock
from grass.wire.codec import encode
from grass.wire.keys import AttemptKey
from grass.wire.node_record import NodeRecord
from grass.wire.usage import UsageSample
from grass.wire.usage_history import WHOLE_JOB, JobHistory
from master.monitor import figures
from master.monitor.histories import Histories, SubjectKey
from master.monitor.own_curves import OwnCurves, Point

EVERY = 2.0
"""Seconds between two turns."""
WRITE_EVERY = 10.0
NODES_EVERY = 10.0
"""Seconds between two reads of the records of all nodes."""
PRUNE_EVERY = 600.0
STALE = 10.0
"""Seconds after which the sample of a node says nothing about the present."""

log = logging.getLogger("grass.monitor")
_Figured = tuple[SubjectKey, float, dict[str, float]]


class Monitor:
    """The work of the monitor, apart from its sockets.

    ``newest``: the newest sample of each node. Only the thread that calls ``turn`` changes anything here.
    """

    def __init__(
        self,
        records: Records,
        store: HistoryStore,
        steady: Callable[[], float] = clock.steady,
        taken: Callable[[str, Sequence[Sampled]], None] = lambda *_: None,
    ) -> None:
        """``taken``: is called with the name of a node and its new samples."""
        self._records = records
        self._taken = taken
        self._store = store
        self._steady = steady
        self._histories = Histories(store.chunks, store.fields)
        self._own = OwnCurves(store.texts)
        self.nodes: dict[str, NodeRecord] = {}
        self.newest: dict[str, Sampled] = {}
        self._cursors: dict[str, str] | None = None
        """Usage stream → last entry that was taken; None: they are to be read."""
        self._touched: dict[str, float] = {}
        """Job id → when its history grew last, of jobs for which that was since the last write."""
        self._kept: dict[str, JobHistory] = {}
        """The jobs that have a history."""
        self._written = self._listed = self._pruned = -1e9

    def turn(self) -> None:
        """Take what is new. Raises UnreachableError; the next call continues."""
        now = self._steady()
        try:
            if self._cursors is None:
                self._cursors, self._kept = self._store.cursors(), self._store.jobs()
            if now - self._listed >= NODES_EVERY:
                self.nodes = {node.name: node for node in self._records.nodes()}
                self.newest = {name: sampled for name, sampled in self.newest.items() if name in self.nodes}
                self._listed = now
            self._take()
            if now - self._written >= WRITE_EVERY:
                self._write()
                self._written = now
            if now - self._pruned >= PRUNE_EVERY:
                self._prune()
                self._pruned = now
        except UnreachableError:
            self.forget()
            raise

    def forget(self) -> None:
        """Forget what was not written; it is read again."""
        self._cursors = None
        self._histories.clear()
        self._own.clear()

    def _take(self) -> None:
        assert self._cursors is not None
        keys = self._store.keys
        streams = {keys.node_usage(name): name for name in self.nodes}
        found = self._store.samples({stream: self._cursors.get(stream, "0-0") for stream in streams})
        taken = 0
        for stream, samples in found.items():
            if not samples:
                continue
            self._cursors[stream] = samples[-1][0]
            taken += 1
            try:
                self._take_node(streams[stream], [sampled for _, sampled in samples])
            except UnreachableError:
                raise
            except Exception:  # whatever one node sends, the others' figures are kept
                log.exception("node %s: its figures cannot be processed; they are left out", streams[stream])
        if taken and self.newest:
            self._histories.add([((keys.cluster_history, ""), *self._cluster()), *self._jobs()])

    def _take_node(self, name: str, samples: Sequence[Sampled]) -> None:
        points: list[_Figured] = []
        own: list[Point] = []
        for sampled in samples:
            self.newest[name] = sampled
            subject = (self._store.keys.node_history(name), "")
            points.append((subject, sampled.at, figures.of_node(sampled.sample.node)))
            points += self._tasks(sampled)
            own += self._own_points(sampled)
            self._notes(sampled.sample)
        self._histories.add(points)
        self._own.add(own)
        self._taken(name, samples)

    def _tasks(self, sampled: Sampled) -> list[_Figured]:
        found = []
        for task in sampled.sample.tasks:
            key = _attempt(task.key)
            if key is not None:
                self._touched[key.job_id] = sampled.at
                subject = (self._store.keys.job_history(key.job_id), str(key.task))
                found.append((subject, sampled.at, figures.of_task(task)))
        return found

    def _own_points(self, sampled: Sampled) -> list[Point]:
        found = []
        for point in sampled.sample.own:
            key = _attempt(point.key)
            if key is not None:
                self._touched[key.job_id] = sampled.at
                hashed = self._store.keys.job_history(key.job_id)
                found.append((hashed, str(key.task), point.name, point.step, point.value, point.at))
        return found

    def _notes(self, sample: UsageSample) -> None:
        """Note what tasks said of themselves that is no point of a curve."""
        for lost in sample.not_finite:
            if (key := _attempt(lost.key)) is not None:
                self._own.count_not_finite(
                    self._store.keys.job_history(key.job_id), str(key.task), lost.name, lost.count
                )
        for said in sample.parameters:
            if (key := _attempt(said.key)) is not None:
                hashed = self._store.keys.job_history(key.job_id)
                self._own.set_parameters(hashed, str(key.task), said.values, said.left_out)
        for medium in sample.media:
            if (key := _attempt(medium.key)) is not None:
                self._own.show(self._store.keys.job_history(key.job_id), str(key.task), medium)
        for trouble in sample.troubles:
            if (key := _attempt(trouble.key)) is not None:
                hashed = self._store.keys.job_history(key.job_id)
                self._own.note_trouble(hashed, str(key.task), trouble.text, trouble.count)

    def _fresh(self) -> tuple[float, list[UsageSample]]:
        """Return the time of the newest sample, and the newest samples of nodes that are not silent."""
        at = max(sampled.at for sampled in self.newest.values())
        return at, [sampled.sample for sampled in self.newest.values() if at - sampled.at < STALE]

    def _jobs(self) -> Iterator[_Figured]:
        """Yield what all tasks of each job use together."""
        at, fresh = self._fresh()
        sums: dict[str, dict[str, float]] = {}
        for task in (task for sample in fresh for task in sample.tasks):
            if (key := _attempt(task.key)) is not None:
                figures.add(sums.setdefault(key.job_id, {}), figures.part_of_job(task))
        for job_id, found in sums.items():
            self._touched.setdefault(job_id, at)
            yield (self._store.keys.job_history(job_id), WHOLE_JOB), at, found

    def _cluster(self) -> tuple[float, dict[str, float]]:
        at, fresh = self._fresh()
        tasks = sum(len(sample.tasks) for sample in fresh)
        return at, figures.of_cluster((sample.node for sample in fresh), self.nodes.values(), tasks)

    def _write(self) -> None:
        if self.newest:
            self._histories.finish_idle(max(sampled.at for sampled in self.newest.values()))
        keys = self._store.keys
        streams = {keys.node_usage(name) for name in self.nodes}
        assert self._cursors is not None
        ops: list[Op] = [*self._histories.operations(), *self._own.operations()]
        if cursors := [text for pair in self._cursors.items() if pair[0] in streams for text in pair]:
            ops.append(("HSET", keys.history_cursor, *cursors))
        if self._touched:
            ops.append(("HSET", keys.history_jobs, *self._grown()))
        if gone := [stream for stream in self._cursors if stream not in streams]:
            ops.append(("HDEL", keys.history_cursor, *gone))
        if ops:
            self._store.write(ops)
        for stream in gone:
            del self._cursors[stream]
        self._touched = {}

    def _grown(self) -> Iterator[str]:
        """Yield id and entry of the jobs whose history grew."""
        growth = self._histories.growth()
        for job_id, at in self._touched.items():
            before = self._kept.get(job_id)
            chunks = (before.chunks if before else 0) + growth.get(self._store.keys.job_history(job_id), 0)
            self._kept[job_id] = JobHistory(round(at), chunks)
            yield from (job_id, encode(self._kept[job_id]))

    def _prune(self) -> None:
        """Remove histories of jobs that were deleted meanwhile, and the oldest of too many."""
        known = self._store.known_jobs(list(self._kept))
        gone = too_many(self._kept, known)
        if gone:
            keys = self._store.keys
            ops: list[Op] = [("DEL", keys.job_history(job_id)) for job_id in gone]
            self._store.write([*ops, ("HDEL", keys.history_jobs, *gone)])
            for job_id in gone:
                del self._kept[job_id]
            log.info("removed the histories of %d jobs", len(gone))


def too_many(
    kept: Mapping[str, JobHistory], known: Set[str], most: int = HISTORY_JOBS_KEPT, chunks: int = HISTORY_CHUNKS_KEPT
) -> list[str]:
    """Return the jobs whose histories go: unknown ones, and those that grew longest ago beyond the two limits."""
    gone = [job_id for job_id in kept if job_id not in known]
    total = 0
    newest = sorted(known & kept.keys(), key=lambda job_id: kept[job_id].at, reverse=True)
    for position, job_id in enumerate(newest):
        total += kept[job_id].chunks
        if position >= most or total > chunks:
            gone.append(job_id)
    return gone


@lru_cache(1 << 14)
def _attempt(text: str) -> AttemptKey | None:
    try:
        return AttemptKey.parse(text)
    except UndecodableError:
        return None
