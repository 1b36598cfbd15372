"""What tasks report of themselves: lines ``GRASS_METRIC name=value … step=N`` in their output. After ``GRASS_METRIC``,
a JSON object has parameters, and a JSON list has texts and files.

The log shipper hands over each block of output that was delivered; most hold no such line, which one search finds out.
The usage sampler takes the points with each sample. What a task prints is bounded here: names, and points per sample.
Used by ``this_machine`` and ``usage_sampler``.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from grass.errors import UndecodableError
from grass.lines import lines_of
from grass.model.key_text import attempt_parts
from grass.task.own_figures import (
    FIGURE_NAME,
    LONGEST_PARAMETER,
    LONGEST_TEXT,
    MOST_PARAMETERS,
    REPORTED,
    SUFFIXES,
)
from grass.wire.own_media import SAID
from grass.wire.usage import OwnMedia, OwnNotFinite, OwnParameters, OwnPoint, OwnTrouble

MARK = "GRASS_METRIC "
MOST_NAMES = 32
"""Figures of one attempt. Further ones are ignored."""
MOST_POINTS = 32
"""Points of one figure between two samples. Every second of more is left out."""
MOST_FROM_FILES = 128
"""The same of a figure from an event file of TensorBoard, whose writer keeps two minutes of points before it writes."""
MOST_SERIES = 1_000
"""Figures of all attempts of this node between two samples."""

MOST_SAID = 64
"""Attempts whose parameters are sent at a time. Others wait for the next sample."""
MOST_MEDIA = 1_000
"""Texts and files of all attempts that wait to be sent."""
MOST_SENT = 64 << 10
"""Characters of texts in one sample. Others wait for the next one."""
LONGEST_TROUBLE = 300
"""Characters of a note about what is not kept."""
_FILE = re.compile(r"[A-Za-z_][A-Za-z0-9_.,+-]{0,149}")
"""Name of a file in the folder of a task. It leads nowhere else."""
_FOREIGN = re.compile(r"[^A-Za-z0-9_./-]+")
"""What the name of a figure does not have."""
_LONGEST_NAME = 64
_TOO_MANY = "texts and files that were reported faster than they can be sent"


class _Series:
    """Points of one figure, always with the last, the least and the greatest. ``every``: so many of the points are
    thinned out to one."""

    def __init__(self, first: OwnPoint, most: int) -> None:
        self._most = most
        self._points: dict[int, OwnPoint] = {}
        """Number of a point → the point."""
        self._every = 1
        self._seen = 0
        self._last = self._least = self._greatest = (0, first)

    def add(self, point: OwnPoint) -> None:
        self._last = numbered = (self._seen, point)
        if point.value < self._least[1].value:
            self._least = numbered
        if point.value > self._greatest[1].value:
            self._greatest = numbered
        if self._seen % self._every == 0:
            self._points[self._seen] = point
        self._seen += 1
        if len(self._points) > self._most:
            self._every *= 2
            self._points = {number: each for number, each in self._points.items() if number % self._every == 0}

    def points(self) -> list[OwnPoint]:
        kept = self._points | dict((self._least, self._greatest, self._last))
        return [point for _, point in sorted(kept.items())]


class Reported(NamedTuple):
    """What tasks reported since the last time."""

    points: tuple[OwnPoint, ...] = ()
    not_finite: tuple[OwnNotFinite, ...] = ()
    parameters: tuple[OwnParameters, ...] = ()
    media: tuple[OwnMedia, ...] = ()
    troubles: tuple[OwnTrouble, ...] = ()


class OwnFigures:
    """What was found and not yet sent.

    ``found`` is called by the threads that take figures, ``drain`` by the sampler's. ``soon``: is called in any thread
    when an attempt with figures has ended: users look at them now.
    """

    def __init__(self, soon: Callable[[], None] = lambda: None) -> None:
        self._soon = soon
        self._ended: set[str] = set()
        self._lock = threading.Lock()
        self._points: dict[tuple[str, str], _Series] = {}
        self._names: dict[str, dict[str, int]] = {}
        """Attempt key → figure → number of its points, which is the step of a point without one."""
        self._not_finite: dict[tuple[str, str], OwnNotFinite] = {}
        self._from_files: dict[str, set[str]] = {}
        """Attempt key → names that event files have."""
        self._parameters: dict[str, dict[str, str]] = {}
        self._parameter_names: dict[str, set[str]] = {}
        self._left_out: dict[str, int] = {}
        self._media: deque[OwnMedia] = deque()
        self._media_names: dict[str, dict[str, int]] = {}
        self._troubles: dict[tuple[str, str], int] = {}

    def found(self, key: str, text: str, at: float) -> None:
        """Note the figures in a block of output."""
        if MARK not in text:
            return
        with self._lock:
            for line in lines_of(text):
                if line.startswith(MARK):
                    self._note(key, line, at)
            ended = key in self._ended
        if ended:
            self._soon()

    def drain(self) -> Reported:
        """Return what came since the last call."""
        with self._lock:
            points, self._points = self._points, {}
            not_finite, self._not_finite = self._not_finite, {}
            said = {key: self._parameters.pop(key) for key in list(self._parameters)[:MOST_SAID]}
            left_out, self._left_out = self._left_out, {}
            media = self._sendable()
            troubles, self._troubles = self._troubles, {}
        return Reported(
            tuple(point for series in points.values() for point in series.points()),
            tuple(not_finite.values()),
            tuple(
                OwnParameters(key, said.get(key, {}), left_out.get(key, 0)) for key in dict.fromkeys((*said, *left_out))
            ),
            media,
            tuple(OwnTrouble(key, text, count) for (key, text), count in troubles.items()),
        )

    def take_back(self, unsent: Reported) -> None:
        """Keep what could not be sent, and is said only once, for the next time: all but figures."""
        with self._lock:
            for each in unsent.parameters:
                self._parameters[each.key] = each.values | self._parameters.get(each.key, {})
                if each.left_out:
                    self._left_out[each.key] = self._left_out.get(each.key, 0) + each.left_out
            self._media.extendleft(reversed(unsent.media))
            for trouble in unsent.troubles:
                self._trouble(trouble.key, trouble.text, trouble.count)

    def found_scalars(self, key: str, values: Iterable[tuple[str, float, float, float]]) -> None:
        """Note figures from event files of TensorBoard: tag, step, value, time. What a task reports itself counts more.

        They are sent at once, as the last of its output may be.
        """
        with self._lock:
            reported = self._names.get(key, {}).keys() - self._from_files.get(key, set())
            for tag, step, value, at in values:
                name = _FOREIGN.sub("_", tag)[:_LONGEST_NAME]
                name = name if FIGURE_NAME.fullmatch(name) else f"_{name}"[:_LONGEST_NAME]
                if name not in reported:
                    self._from_files.setdefault(key, set()).add(name)
                    self._add(key, name, step, value, at, MOST_FROM_FILES)
        self._soon()

    def trouble(self, key: str, text: str, count: int = 1) -> None:
        """Note what a task reported that is not kept."""
        with self._lock:
            self._trouble(key, text, count)

    def end(self, key: str) -> None:
        """Note that an attempt has ended. The last of its output may still come."""
        with self._lock:
            self._ended.add(key)
            reported = any(key in each for each in (self._names, self._parameter_names, self._media_names))
        if reported:
            self._soon()

    def forget(self, key: str) -> None:
        with self._lock:
            self._ended.discard(key)
            self._names.pop(key, None)
            self._from_files.pop(key, None)
            self._parameter_names.pop(key, None)
            self._media_names.pop(key, None)

    def _note(self, key: str, line: str, at: float) -> None:
        if line.startswith("{", len(MARK)):
            self._note_parameters(key, line)
            return
        if line.startswith("[", len(MARK)):
            self._note_media(key, line, at)
            return
        self._names.setdefault(key, {})
        figures = dict(parse(line))
        step = figures.pop("step", None)
        if step is not None and not math.isfinite(step):
            step = None
        for name, value in figures.items():
            self._add(key, name, step, value, at)

    def _add(self, key: str, name: str, step: float | None, value: float, at: float, most: int = MOST_POINTS) -> None:
        names = self._names.setdefault(key, {})
        if name not in names and len(names) >= MOST_NAMES:
            self._trouble(key, f"figures beyond {MOST_NAMES} names")
            return
        names[name] = count = names.get(name, -1) + 1
        point = OwnPoint(key, name, count if step is None else step, value, at)
        if not math.isfinite(value):
            before = self._not_finite.get((key, name))
            if before is not None or len(self._not_finite) < MOST_SERIES:
                total = 1 if before is None else before.count + 1
                self._not_finite[key, name] = OwnNotFinite(key, name, point.step, total)
            return
        series = self._points.get((key, name))
        if series is None:
            if len(self._points) >= MOST_SERIES:
                return
            series = self._points[key, name] = _Series(point, most)
        series.add(point)

    def _note_media(self, key: str, line: str, at: float) -> None:
        """Note the texts and files of one line. What is none is ignored."""
        try:
            found = SAID.decode(line[len(MARK) :])[:MOST_NAMES]
        except UndecodableError:
            return
        names = self._media_names.setdefault(key, {})
        for each in found:
            if not FIGURE_NAME.fullmatch(each.name) or (each.step is not None and not math.isfinite(each.step)):
                continue
            if each.name not in names and len(names) >= MOST_NAMES:
                self._trouble(key, f"texts and files beyond {MOST_NAMES} names")
                continue
            names[each.name] = count = names.get(each.name, -1) + 1
            step = count if each.step is None else each.step
            if each.refused:
                self._trouble(key, f"{each.name}, step {step:g}: {each.refused}")
            elif len(self._media) >= MOST_MEDIA:
                self._trouble(key, _TOO_MANY)
            elif each.text:
                self._media.append(OwnMedia(key, each.name, step, at, text=each.text[:LONGEST_TEXT]))
            elif _FILE.fullmatch(each.file) and (kind := SUFFIXES.get(each.file.rpartition(".")[2])):
                path = f"{REPORTED}/{attempt_parts(key)[1]}/{each.file}"
                self._media.append(OwnMedia(key, each.name, step, at, kind, file=path, size=max(0, each.size)))

    def _sendable(self) -> tuple[OwnMedia, ...]:
        """Return the oldest texts and files that fit in a sample."""
        sent, room = [], MOST_SENT
        while self._media and room > 0:
            sent.append(self._media.popleft())
            room -= len(sent[-1].text) + len(sent[-1].file) + len(sent[-1].key)
        return tuple(sent)

    def _trouble(self, key: str, text: str, count: int = 1) -> None:
        if (key, text) in self._troubles or len(self._troubles) < MOST_SERIES:
            said = key, _plain(text, LONGEST_TROUBLE)
            self._troubles[said] = self._troubles.get(said, 0) + count

    def _note_parameters(self, key: str, line: str) -> None:
        names = self._parameter_names.setdefault(key, set())
        for name, text in parameters(line).items():
            if name not in names and len(names) >= MOST_PARAMETERS:
                self._left_out[key] = self._left_out.get(key, 0) + 1
                continue
            names.add(name)
            self._parameters.setdefault(key, {})[name] = text


def parameters(line: str) -> dict[str, str]:
    """Return the parameters of one line. What is none is ignored."""
    try:
        found = json.loads(line[len(MARK) :])
        texts = {name: each if isinstance(each, str) else json.dumps(each) for name, each in found.items()}
    except (ValueError, RecursionError):
        return {}
    return {name: _plain(text) for name, text in texts.items() if FIGURE_NAME.fullmatch(name)}


def _plain(text: str, most: int = LONGEST_PARAMETER) -> str:
    """Return the text in one line that can be shown and sent."""
    shown = "".join(each if each.isprintable() else " " for each in text[: 2 * most])
    return " ".join(shown.split())[:most]


def parse(line: str) -> Iterator[tuple[str, float]]:
    """Yield the names and values of one line, which may be NaN or infinite.

    Words that are neither are ignored: the line is also for people.
    """
    for word in line[len(MARK) :].split()[: MOST_NAMES + 1]:
        name, equals, text = word.partition("=")
        if equals and FIGURE_NAME.fullmatch(name):
            try:
                yield name, float(text)
            except ValueError:
                continue
