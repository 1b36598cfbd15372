"""Curves of the figures that tasks report of themselves, as they are kept with a job. Pure.

In the hash ``history:job:<job id>``: the field ``own`` lists the curves, ``own/<task>/<name>`` is one of them. As text:
``<every> <seen> `` and base64 of zlib of steps, values and times, as 64-bit floats. The monitor writes them, the API
reads them.
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
MOST_CURVES = 64
"""Curves of one job."""
_MOST_RAW = 8 * 3 * (MOST_POINTS + 1)


class OwnIndex(msgspec.Struct):
    """The curves of a job."""

    curves: list[tuple[str, str]] = []
    """Task and name of each curve."""
    dropped: int = 0
    """Points of further curves."""


OWN_INDEX: Form[OwnIndex] = Form(OwnIndex)


class OwnCurve:
    """The curve of one figure.

    ``every``: so many points are thinned out to one. ``seen``: points that were reported.
    """

    def __init__(self, every: int = 1, seen: int = 0, columns: Sequence[Sequence[float]] = ((), (), ())) -> None:
        self.every = every
        self.seen = seen
        self.steps, self.values, self.times = (array("d", column) for column in columns)

    def add(self, step: float, value: float, at: float) -> None:
        """Add a point. Beyond ``MOST_POINTS``, every second one is left out, now and later."""
        if self.seen % self.every == 0:
            for column, figure in ((self.steps, step), (self.values, value), (self.times, at)):
                column.append(figure)
        self.seen += 1
        if len(self.steps) > MOST_POINTS:
            self.steps, self.values, self.times = self.steps[::2], self.values[::2], self.times[::2]
            self.every *= 2

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
