"""What tasks report of themselves, in memory until it is written: summaries, curves, parameters, texts and files. Pure.

Used by the monitor. A job has a bounded number of figures and of curves; the curves share a number of points.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from grass.errors import UndecodableError
from grass.store.backend import Op
from grass.wire import codec
from grass.wire.codec import Form
from grass.wire.own_curves import (
    INDEX,
    MOST_CURVES,
    MOST_NOTES,
    OWN_INDEX,
    OWN_NOTES,
    SUMMARIES,
    OwnCurve,
    OwnIndex,
    OwnNotes,
    Summary,
    last_field,
    most_points,
    notes_field,
    unpack,
)
from grass.wire.own_curves import field as curve_field
from grass.wire.own_media import MEDIA, MOST_MEDIA, MOST_TEXT, MediaSeries, media_field
from grass.wire.usage import OwnMedia

MOST_JOBS = 1_000
"""Jobs whose figures stay in memory; others are read again when a task reports more."""
MOST_KEPT = 60_000
"""Figures of all jobs that stay in memory, about 20 MiB. Those of one job may."""
Point = tuple[str, str, str, float, float, float]
"""Key of the job's hash, task, name, step, value, time."""
Texts = Callable[[str, Sequence[str]], dict[str, str]]
"""Returns those fields of a hash that exist."""
_Kept = TypeVar("_Kept")
log = logging.getLogger("grass.monitor")


@dataclass
class _Job:
    index: OwnIndex = field(default_factory=OwnIndex)
    curves: dict[tuple[str, str], OwnCurve] = field(default_factory=dict)
    summaries: dict[str, dict[str, Summary]] = field(default_factory=dict)
    """Of the tasks that have reported since the job was read."""
    changed: dict[tuple[str, str], None] = field(default_factory=dict)
    """Curves to be written."""
    reported: dict[str, None] = field(default_factory=dict)
    """Tasks whose summaries are to be written."""
    notes: dict[str, OwnNotes] = field(default_factory=dict)
    noted: dict[str, None] = field(default_factory=dict)
    """Tasks whose notes are to be written."""
    media: dict[str, dict[str, MediaSeries]] = field(default_factory=dict)
    shown: dict[str, None] = field(default_factory=dict)
    """Tasks whose texts and files are to be written."""
    listed: bool = True
    """Whether the index is written."""

    def operations(self, key: str) -> Iterable[Op]:
        if not self.listed:
            yield "HSET", key, INDEX, codec.encode(self.index)
        for each in self.changed:
            yield "HSET", key, curve_field(*each), self.curves[each].pack()
        for task in self.reported:
            yield "HSET", key, last_field(task), codec.encode(self.summaries[task])
        for task in self.noted:
            yield "HSET", key, notes_field(task), codec.encode(self.notes[task])
        for task in self.shown:
            yield "HSET", key, media_field(task), codec.encode(self.media[task])
        self.changed, self.reported, self.noted, self.shown, self.listed = {}, {}, {}, {}, True

    def has_room(self, known: bool, left_out: int) -> bool:
        """Return whether a note may be kept, ``known`` or new; otherwise count what is left out."""
        full = not known and self.index.notes >= MOST_NOTES
        self.index.notes += not known and not full
        self.index.left_out += left_out if full else 0
        self.listed = self.listed and known
        return not full

    @property
    def size(self) -> int:
        return self.index.figures + self.index.notes + self.index.media


class OwnCurves:
    """The figures of all active jobs.

    ``texts`` reads those of a job from the store when one of its tasks reports more.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._jobs: dict[str, _Job] = {}

    def add(self, points: Iterable[Point]) -> None:
        for key, task, name, step, value, at in points:
            job = self._jobs.get(key) or self._load(key)
            if self._summarize(key, job, task, name, step, value):
                self._draw(job, (task, name), step, value, at)
            else:
                job.index.dropped, job.index.unkept, job.listed = job.index.dropped + 1, job.index.unkept + 1, False

    def count_not_finite(self, key: str, task: str, name: str, count: int) -> None:
        """Count values that are no points."""
        job = self._jobs.get(key) or self._load(key)
        job.index.not_finite, job.listed = job.index.not_finite + count, False
        known = self._notes(key, job, task).not_finite
        if job.has_room(name in known, count):
            known[name] = known.get(name, 0) + count

    def set_parameters(self, key: str, task: str, values: Mapping[str, str], left_out: int) -> None:
        """Note what a task says of itself; the newest value counts. ``left_out``: what its node did not take."""
        job = self._jobs.get(key) or self._load(key)
        known = self._notes(key, job, task).parameters
        known.update({name: text for name, text in values.items() if job.has_room(name in known, 1)})
        if left_out:
            job.index.left_out, job.listed = job.index.left_out + left_out, False

    def note_trouble(self, key: str, task: str, text: str, count: int) -> None:
        """Note what a task reported that is not kept, and why."""
        job = self._jobs.get(key) or self._load(key)
        if self._notes(key, job, task).add_trouble(text, count):
            job.index.notes, job.listed = job.index.notes + 1, False

    def show(self, key: str, task: str, medium: OwnMedia) -> None:
        """Keep a text or a file. In a job with too many, it takes the place of the one before of its name."""
        job = self._jobs.get(key) or self._load(key)
        if task not in job.media:
            job.media[task] = self._read(key, media_field(task), MEDIA) or {}
        known = job.media[task]
        full = job.index.media >= MOST_MEDIA or job.index.texts + len(medium.text) > MOST_TEXT
        if full and medium.name not in known:
            self.note_trouble(key, task, "texts and files beyond those that are kept of a job", 1)
            return
        series = known.setdefault(medium.name, MediaSeries())
        kept, characters = len(series.kept), series.characters
        series.add(medium, full=full)
        job.index.media += len(series.kept) - kept
        job.index.texts += series.characters - characters
        job.shown[task], job.listed = None, False

    def operations(self) -> list[Op]:
        """Return what writes the figures that have changed."""
        ops = [op for key, job in self._jobs.items() for op in job.operations(key)]
        figures = sum(job.size for job in self._jobs.values())
        for key in list(self._jobs)[:-1]:
            if figures <= MOST_KEPT and len(self._jobs) <= MOST_JOBS:
                break
            figures -= self._jobs.pop(key).size
        return ops

    def clear(self) -> None:
        """Forget everything; the store has what was written."""
        self._jobs.clear()

    def _summarize(self, key: str, job: _Job, task: str, name: str, step: float, value: float) -> bool:
        """Note the point in the summary of its figure. Return False if the job has too many figures."""
        known = job.summaries.get(task)
        if known is None:
            known = job.summaries[task] = self._read(key, last_field(task), SUMMARIES) or {}
        job.listed = job.listed and name in known
        if not job.index.summarize(known, name, step, value):
            return False
        job.reported[task] = None
        return True

    def _draw(self, job: _Job, which: tuple[str, str], step: float, value: float, at: float) -> None:
        curve = job.curves.get(which)
        if curve is None:
            job.listed = False
            if len(job.curves) >= MOST_CURVES:
                job.index.dropped += 1
                return
            curve = job.curves[which] = OwnCurve()
            job.index.curves.append(which)
            if most_points(len(job.curves)) < most_points(len(job.curves) - 1):
                most = most_points(len(job.curves))
                job.changed.update((each, None) for each, other in job.curves.items() if other.thin(most))
        curve.add(step, value, at, most_points(len(job.curves)))
        job.changed[which] = None

    def _load(self, key: str) -> _Job:
        job = _Job()
        try:
            if text := self._texts(key, [INDEX]).get(INDEX):
                job.index = OWN_INDEX.decode(text)
            names = {curve_field(*each): each for each in job.index.curves}
            job.curves = {names[name]: unpack(text) for name, text in self._texts(key, list(names)).items()}
        except UndecodableError as error:
            log.warning("redis key %s: %s; its curves begin again", key, error)
            job = _Job()
        self._jobs[key] = job
        return job

    def _notes(self, key: str, job: _Job, task: str) -> OwnNotes:
        """Return the notes of a task, which will be written."""
        job.noted[task] = None
        if task not in job.notes:
            job.notes[task] = self._read(key, notes_field(task), OWN_NOTES) or OwnNotes()
        return job.notes[task]

    def _read(self, key: str, name: str, form: Form[_Kept]) -> _Kept | None:
        """Return what an earlier monitor has written of a task."""
        text = self._texts(key, [name]).get(name)
        try:
            return form.decode(text) if text else None
        except UndecodableError as error:
            log.warning("redis key %s: %s; field %s begins again", key, error, name)
            return None
