"""What tasks report of themselves, as kept with a job: last, least and greatest of figures, curves, parameters. Pure.

In the hash ``history:job:<job id>``: the field ``own`` lists the curves, ``own/<task>/<name>`` is one of them. As text:
``<every> <seen> `` and base64 of zlib of steps, values and times, as 64-bit floats. The field ``own-last/<task>`` has
the summaries of a task's figures, ``own-notes/<task>`` its parameters. The monitor writes them, the API reads them.

Many tasks have summaries first. Curves share a number of points: the more there are, the fewer points each has.
"""

from __future__ import annotations

import binascii
import zlib
from array import array
from collections.abc import Sequence

import msgspec

from grass.errors import UndecodableError
from grass.wire.codec import Form

INDEX = "own"
MOST_POINTS = 512
"""Points of one curve. With more, every second one is left out."""
FULL_CURVES = 64
"""Curves of one job that have so many points each. With twice as many curves, each has half as many points."""
MOST_CURVES = 2_048
"""Curves of one job, which then have 16 points each."""
MOST_FIGURES = 30_000
"""Figures of all tasks of one job that have a summary: six of each of 5,000 tasks."""
MOST_NOTES = 50_000
"""Parameters, figures with values that are not finite, and troubles, of all tasks of one job: ten of each of 5,000."""
MOST_TROUBLES = 8
"""Different ones of a task. Further ones are counted as ``FURTHER_TROUBLES``."""
FURTHER_TROUBLES = "other things"
_MOST_RAW = 8 * 3 * (MOST_POINTS + 1)


class Summary(msgspec.Struct, array_like=True):
    """What is kept of a figure of one task, however many tasks there are."""

    last: float
    least: float
    greatest: float
    step: float
    """That of the last value."""

    def add(self, step: float, value: float) -> None:
        self.last, self.step = value, step
        self.least, self.greatest = min(self.least, value), max(self.greatest, value)


class OwnIndex(msgspec.Struct):
    """The curves of a job."""

    curves: list[tuple[str, str]] = []
    """Task and name of each curve."""
    dropped: int = 0
    """Points of further curves."""
    figures: int = 0
    """How many figures of tasks have a summary."""
    unkept: int = 0
    """Those of the dropped points whose figure has no summary either."""
    notes: int = 0
    """How many parameters, and figures with values that are not finite, are kept."""
    left_out: int = 0
    """Values of further parameters, and further values that are not finite."""
    not_finite: int = 0
    """Values that are no points of curves, because they are NaN or infinite."""
    media: int = 0
    """How many texts and files are kept (``own_media``)."""
    texts: int = 0
    """Characters of these texts."""

    def summarize(self, known: dict[str, Summary], name: str, step: float, value: float) -> bool:
        """Add a value to the summaries of a task. Return False if the job has too many figures."""
        if name in known:
            known[name].add(step, value)
        elif self.figures < MOST_FIGURES:
            known[name] = Summary(value, value, value, step)
            self.figures += 1
        else:
            return False
        return True


class OwnNotes(msgspec.Struct, omit_defaults=True):
    """What a task said of itself that is no point of a curve."""

    parameters: dict[str, str] = {}
    not_finite: dict[str, int] = {}
    """Name of a figure → how many of its values were NaN or infinite."""
    troubles: dict[str, int] = {}
    """What is not kept, and why → how often."""

    def add_trouble(self, text: str, count: int) -> bool:
        """Count what is not kept. Return whether this is a new note."""
        known = self.troubles
        text = text if text in known or len(known) < MOST_TROUBLES else FURTHER_TROUBLES
        new = text not in known
        known[text] = known.get(text, 0) + count
        return new


OWN_INDEX: Form[OwnIndex] = Form(OwnIndex)
SUMMARIES: Form[dict[str, Summary]] = Form(dict[str, Summary])
"""Name of a figure → its summary, of one task."""
OWN_NOTES: Form[OwnNotes] = Form(OwnNotes)


def most_points(curves: int) -> int:
    """Return how many points each curve of a job has if there are so many curves: a power of two."""
    return MOST_POINTS >> max(0, (curves - 1) // FULL_CURVES).bit_length()


class OwnCurve:
    """The curve of one figure.

    ``every``: so many points are thinned out to one. ``seen``: points that were reported.
    """

    def __init__(self, every: int = 1, seen: int = 0, columns: Sequence[Sequence[float]] = ((), (), ())) -> None:
        self.every = every
        self.seen = seen
        self.steps, self.values, self.times = (array("d", column) for column in columns)

    def add(self, step: float, value: float, at: float, most: int = MOST_POINTS) -> None:
        """Add a point. Beyond ``most``, every second one is left out, now and later."""
        if self.seen % self.every == 0:
            for column, figure in ((self.steps, step), (self.values, value), (self.times, at)):
                column.append(figure)
        self.seen += 1
        self.thin(most)

    def thin(self, most: int) -> bool:
        """Leave out every second point until there are ``most`` at most. Return whether there were more."""
        before = self.every
        while len(self.steps) > most:
            self.steps, self.values, self.times = self.steps[::2], self.values[::2], self.times[::2]
            self.every *= 2
        return self.every != before

    def pack(self) -> str:
        """Return the curve as it is kept."""
        raw = self.steps.tobytes() + self.values.tobytes() + self.times.tobytes()
        return f"{self.every} {self.seen} {binascii.b2a_base64(zlib.compress(raw, 1), newline=False).decode()}"


def unpack(text: str) -> OwnCurve:
    """Raises UndecodableError."""
    try:
        every, seen, packed = text.split(" ", 2)
        inflater = zlib.decompressobj()
        raw = inflater.decompress(binascii.a2b_base64(packed), _MOST_RAW)
        third = len(raw) // 3
        columns = [array("d", raw[start : start + third]) for start in (0, third, 2 * third)]
        if not inflater.eof or len(raw) % 24:
            raise ValueError("cut off")
        return OwnCurve(int(every), int(seen), columns)
    except (ValueError, zlib.error) as error:
        raise UndecodableError("", f"not a curve: {error}") from error


def field(task: str, name: str) -> str:
    """Return the field of the hash in which a curve is kept."""
    return f"{INDEX}/{task}/{name}"


def last_field(task: str) -> str:
    """Return the field of the hash in which the summaries of a task are kept."""
    return f"{INDEX}-last/{task}"


def notes_field(task: str) -> str:
    """Return the field of the hash in which the parameters of a task are kept."""
    return f"{INDEX}-notes/{task}"
