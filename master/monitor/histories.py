"""Histories in memory: the chunks that are being filled, and which of them changed since they were written. Pure.

Used by the monitor. A coarse point is the average of the finer chunk, or of a part of it, that covers its time, so
nothing but chunks has to be remembered, and a monitor that starts again continues from those in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from grass.store.backend import Op
from grass.wire.usage_history import FINE, LEVELS, MINUTES, QUARTERS, Chunk, Level, field

_MINUTES_OF_QUARTER = QUARTERS.step // MINUTES.step
IDLE = 180.0
"""Seconds without a new point after which a subject leaves the memory."""

SubjectKey = tuple[str, str]
"""The key of a hash in the store, and the subject in it: a task, or "" for a node or the cluster."""


class Subject:
    """One node, one task, or the cluster. ``chunks``: those of an earlier monitor."""

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self._open: dict[Level, Chunk] = {}
        for chunk in sorted(chunks, key=lambda chunk: chunk.number):
            self._open[chunk.level] = chunk  # the newest of each level
        self._finished: float | None = None
        self._expired: list[tuple[Level, int]] = []
        self.growth = 0
        """Chunks that were begun since it was last set to 0."""
        self._dirty: dict[tuple[Level, int], Chunk] = {}
        self.at = 0.0

    def add(self, at: float, figures: Mapping[str, float]) -> None:
        """Add a point. One that is older than the chunk that is being filled is ignored."""
        fine = self._open.get(FINE)
        if fine is not None and FINE.number(at) < fine.number:
            return
        if fine is not None and FINE.number(at) > fine.number:
            self._finish(fine, at)
        self._put(FINE, at, figures)
        self.at = max(self.at, at)

    def finish(self, at: float) -> None:
        """Bring all levels up to date: no further points are expected for now."""
        fine = self._open.get(FINE)
        if fine is not None and self._finished != at:
            self._finished = at
            self._finish(fine, at + QUARTERS.step)

    def expired(self) -> list[tuple[Level, int]]:
        """Return the chunks that are older than promised, since the last call."""
        expired, self._expired = self._expired, []
        return expired

    def changed(self) -> list[Chunk]:
        """Return the chunks that have changed since the last call."""
        changed, self._dirty = list(self._dirty.values()), {}
        return changed

    def _finish(self, fine: Chunk, now: float) -> None:
        """Add the minute that is over to the minutes, and its quarter of an hour, if that is over, to the quarters."""
        minute = fine.start
        if means := fine.mean():
            self._put(MINUTES, minute, means)
        minutes = self._open.get(MINUTES)
        if minutes is not None and minute // QUARTERS.step != now // QUARTERS.step:
            first = MINUTES.point(minute) // _MINUTES_OF_QUARTER * _MINUTES_OF_QUARTER
            if means := minutes.mean(first, _MINUTES_OF_QUARTER):
                self._put(QUARTERS, minute, means)

    def _put(self, level: Level, at: float, figures: Mapping[str, float]) -> None:
        chunk, number = self._open.get(level), level.number(at)
        if chunk is None or chunk.number != number:
            if chunk is not None:
                last = number - level.kept
                oldest = max(chunk.number - level.kept, last - level.kept)
                self._expired += [(level, each) for each in range(oldest + 1, last + 1)]
            self.growth += 1
            chunk = self._open[level] = Chunk(level, number)
        chunk.put(at, figures)
        self._dirty[level, number] = chunk


Load = Callable[[str, list[tuple[str, Level, int]]], Mapping[tuple[str, Level, int], Chunk]]
"""Returns those chunks of a hash that exist."""


class Histories:
    """The chunks of all histories that are in memory.

    ``load`` reads chunks of an earlier monitor, once for each subject. ``fields`` lists the fields of a hash.

    Those of nodes and the cluster are listed when they are met: they outlive gaps in which nobody removed old chunks.
    """

    def __init__(self, load: Load, fields: Callable[[str], Iterable[str]]) -> None:
        self._load = load
        self._fields = fields
        self._swept: list[Op] = []
        self._subjects: dict[SubjectKey, Subject] = {}

    def __len__(self) -> int:
        return len(self._subjects)

    def add(self, points: Iterable[tuple[SubjectKey, float, Mapping[str, float]]]) -> None:
        points = list(points)
        self._meet([(key, at) for key, at, _ in points if key not in self._subjects])
        for key, at, figures in points:
            self._subjects[key].add(at, figures)

    def operations(self) -> list[Op]:
        """Return what writes the changes, and removes what is older than promised."""
        ops: list[Op] = []
        for (key, subject), history in self._subjects.items():
            for chunk in history.changed():
                ops.append(("HSET", key, field(chunk.level, chunk.number, subject), chunk.pack()))
            if expired := history.expired():
                ops.append(("HDEL", key, *(field(level, number, subject) for level, number in expired)))
        ops += self._swept
        self._swept = []
        return ops

    def growth(self) -> dict[str, int]:
        """Return hash → chunks that were begun in it since the last call. Those that expired are not subtracted."""
        found: dict[str, int] = {}
        for (key, _), history in self._subjects.items():
            if history.growth:
                found[key] = found.get(key, 0) + history.growth
                history.growth = 0
        return found

    def finish_idle(self, now: float) -> None:
        """Finish the subjects that got no points for a while. They leave the memory with the next call."""
        for key, history in list(self._subjects.items()):
            if now - history.at > 2 * IDLE:
                del self._subjects[key]
            elif now - history.at > IDLE:
                history.finish(history.at)

    def clear(self) -> None:
        """Forget everything; the store has what was written."""
        self._subjects.clear()

    def _meet(self, new: list[tuple[SubjectKey, float]]) -> None:
        wanted: dict[str, list[tuple[str, Level, int]]] = {}
        for (key, subject), at in dict(new).items():
            # the chunk before may not be finished: an earlier monitor ended in it
            each = [(subject, level, level.number(at) - back) for level in LEVELS for back in (1, 0)]
            wanted.setdefault(key, []).extend(each)
        for key, chunks in wanted.items():
            found: dict[str, list[Chunk]] = {}
            for (subject, _, _), chunk in self._load(key, chunks).items():
                found.setdefault(subject, []).append(chunk)
            if chunks[0][0] == "":
                self._sweep(key, max(at for (met, _), at in new if met == key))
            for subject in dict.fromkeys(subject for subject, _, _ in chunks):
                self._subjects[key, subject] = Subject(found.get(subject, ()))

    def _sweep(self, key: str, now: float) -> None:
        oldest = {str(level.step): level.number(now) - level.kept for level in LEVELS}
        parts = ((name, name.rpartition("/")) for name in self._fields(key))
        old = [name for name, (step, _, number) in parts if int(number) <= oldest.get(step, -1)]
        if old:
            self._swept.append(("HDEL", key, *old))
