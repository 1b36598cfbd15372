"""Curves of the figures that tasks report of themselves, in memory until they are written. Pure.

Used by the monitor. A job has a bounded number of curves, and each a bounded number of points.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from grass.errors import UndecodableError
from grass.store.backend import Op
from grass.wire import codec
from grass.wire.own_curves import INDEX, MOST_CURVES, OWN_INDEX, OwnCurve, OwnIndex, field, unpack

MOST_JOBS = 1_000
"""Jobs whose curves stay in memory; others are read again when a task reports more."""
Point = tuple[str, str, str, float, float, float]
"""Key of the job's hash, task, name, step, value, time."""
Texts = Callable[[str, Sequence[str]], dict[str, str]]
"""Returns those fields of a hash that exist."""
log = logging.getLogger("grass.monitor")


class OwnCurves:
    """The curves of all active jobs.

    ``texts`` reads a job's curves from the store when one of its tasks reports more.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._jobs: dict[str, tuple[OwnIndex, dict[tuple[str, str], OwnCurve]]] = {}
        self._changed: dict[str, dict[tuple[str, str], None]] = {}

    def add(self, points: Iterable[Point]) -> None:
        for key, task, name, step, value, at in points:
            index, curves = self._jobs.get(key) or self._load(key)
            changed = self._changed.setdefault(key, {})
            curve = curves.get((task, name))
            if curve is None:
                if len(curves) >= MOST_CURVES:
                    index.dropped += 1
                    continue
                curve = curves[task, name] = OwnCurve()
                index.curves.append((task, name))
            curve.add(step, value, at)
            changed[task, name] = None

    def operations(self) -> list[Op]:
        """Return what writes the curves that have changed."""
        ops: list[Op] = []
        for key, changed in self._changed.items():
            index, curves = self._jobs[key]
            ops.append(("HSET", key, INDEX, codec.encode(index)))
            ops += [("HSET", key, field(*each), curves[each].pack()) for each in changed]
        self._changed = {}
        for key in list(self._jobs)[: max(0, len(self._jobs) - MOST_JOBS)]:
            del self._jobs[key]
        return ops

    def clear(self) -> None:
        """Forget everything; the store has what was written."""
        self._jobs.clear()
        self._changed.clear()

    def _load(self, key: str) -> tuple[OwnIndex, dict[tuple[str, str], OwnCurve]]:
        index, curves = OwnIndex(), dict[tuple[str, str], OwnCurve]()
        try:
            if text := self._texts(key, [INDEX]).get(INDEX):
                index = OWN_INDEX.decode(text)
            names = {field(*each): each for each in index.curves}
            curves = {names[name]: unpack(text) for name, text in self._texts(key, list(names)).items()}
        except UndecodableError as error:
            log.warning("redis key %s: %s; its curves begin again", key, error)
            index = OwnIndex()
        self._jobs[key] = index, curves
        return index, curves
