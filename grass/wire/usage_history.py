"""Histories of figures in packed form: chunks of points, by level of detail. Pure.

The monitor writes them (``master.monitor``), the API reads them. A chunk holds the same names for a fixed span of time.
Values are kept as the upper half of a 32-bit float, which is exact to 0.4 %; NaN: nothing is known. As text:
base64 of zlib of the names, a newline, the first and then the second bytes of all values, name by name (ADR 16).
"""

from __future__ import annotations

import binascii
import math
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from grass.errors import UndecodableError
from grass.wire.codec import Form

UNKNOWN = math.nan
WHOLE_JOB = "*"
"""The subject of the sums over all tasks of a job. No task has this name."""
_MOST_RAW = 1 << 20
"""Bytes of an unpacked chunk: no chunk that was written is that long."""


class Level(msgspec.Struct, frozen=True):
    """One level of detail of a history.

    ``step``: seconds of a point. ``points``: in a chunk. ``kept``: chunks.
    """

    step: int
    points: int
    kept: int

    @property
    def span(self) -> int:
        """Seconds of a chunk."""
        return self.step * self.points

    @property
    def reach(self) -> int:
        """Seconds back to which all is kept: one chunk more is being filled."""
        return self.span * (self.kept - 1)

    def number(self, at: float) -> int:
        """Return the number of the chunk in which ``at`` lies."""
        return int(at // self.span)

    def point(self, at: float) -> int:
        """Return the position of ``at`` in its chunk."""
        return int(at % self.span // self.step)


FINE, MINUTES, QUARTERS = Level(2, 30, 16), Level(60, 60, 25), Level(900, 96, 32)
LEVELS = (FINE, MINUTES, QUARTERS)
"""2 s for 15 minutes, 1 minute for a day, 15 minutes for 31 days; the finest first."""


class JobHistory(msgspec.Struct, frozen=True, array_like=True):
    """How far the history of a job goes. In the hash ``history:jobs``."""

    at: float
    """When it grew last: seconds since the epoch."""
    chunks: int
    """How many chunks were begun in it."""


JOB_HISTORY: Form[JobHistory] = Form(JobHistory)


class Chunk:
    """Points of several names in one span of time."""

    def __init__(self, level: Level, number: int, values: Mapping[str, array[float]] | None = None) -> None:
        self.level = level
        self.number = number
        self.values = dict(values or {})

    @property
    def start(self) -> int:
        """Seconds since the epoch."""
        return self.number * self.level.span

    def put(self, at: float, figures: Mapping[str, float]) -> None:
        point = self.level.point(at)
        for name, figure in figures.items():
            values = self.values.get(name)
            if values is None:
                values = self.values[name] = array("f", [UNKNOWN]) * self.level.points
            values[point] = figure

    def mean(self, first: int = 0, count: int | None = None) -> dict[str, float]:
        """Return the average of each name over some points, by default all. Names without a known point are absent."""
        until = self.level.points if count is None else first + count
        found = {}
        for name, values in self.values.items():
            known = [value for value in values[first:until] if value == value]
            if known:
                found[name] = math.fsum(known) / len(known)
        return found

    def pack(self) -> str:
        names = ",".join(self.values).encode()
        raw = _rounded(b"".join(self.values.values()))
        return binascii.b2a_base64(zlib.compress(names + b"\n" + raw[3::4] + raw[2::4], 1), newline=False).decode()


def unpack(level: Level, number: int, text: str) -> Chunk:
    """Return a chunk from its text. Raises UndecodableError."""
    try:
        packed = zlib.decompressobj()
        raw = packed.decompress(binascii.a2b_base64(text), _MOST_RAW)
        head, _, data = raw.partition(b"\n")
        names = head.decode().split(",") if head else []
        half = len(names) * level.points
        if len(data) != 2 * half or not packed.eof:
            raise ValueError(f"{len(data)} bytes of values for {len(names)} names")
    except (ValueError, zlib.error) as error:
        raise UndecodableError("", f"not a chunk of a history: {error}") from error
    four = bytearray(4 * half)
    four[3::4], four[2::4] = data[:half], data[half:]
    values = array("f", bytes(four))
    points = level.points
    return Chunk(level, number, {name: values[i * points : (i + 1) * points] for i, name in enumerate(names)})


def field(level: Level, number: int, subject: str = "") -> str:
    """Return the field of a chunk in the hash of its history. ``subject``: a task, in the history of a job."""
    return f"{subject}/{level.step}/{number}" if subject else f"{level.step}/{number}"


def level_of(step: float) -> Level:
    """Return the coarsest level whose points are at most ``step`` seconds apart."""
    return max((level for level in LEVELS if level.step <= step), default=FINE, key=lambda level: level.step)


def finest(age: float) -> Level:
    """Return the finest level that still has what is ``age`` seconds old; the coarsest for what is older than all."""
    return next((level for level in LEVELS if age <= level.reach), QUARTERS)


def numbers(level: Level, since: float, until: float) -> list[int]:
    """Return the numbers of the chunks between two times, at most those that are kept."""
    last = level.number(until)
    return list(range(max(level.number(since), last - level.kept + 1), last + 1))


def join(level: Level, chunks: Sequence[Chunk], since: float, until: float) -> tuple[float, dict[str, list[float]]]:
    """Return the time of the first point, and the values of each name from there to ``until``; NaN where unknown."""
    wanted = numbers(level, since, until)
    by_number = {chunk.number: chunk for chunk in chunks}
    first = max(since // level.step, wanted[0] * level.points) if wanted else since // level.step
    count = max(0, int(until // level.step - first) + 1)
    skip = int(first - wanted[0] * level.points) if wanted else 0
    blank = array("f", [UNKNOWN]) * level.points
    found: dict[str, list[float]] = {}
    for name in _names(chunks):
        whole = array("f")
        for number in wanted:
            chunk = by_number.get(number)
            whole += chunk.values.get(name, blank) if chunk else blank
        found[name] = list(whole[skip : skip + count])
    return float(first * level.step), found


def _names(chunks: Iterable[Chunk]) -> list[str]:
    return list(dict.fromkeys(name for chunk in chunks for name in chunk.values))


def _rounded(raw: bytes) -> bytes:
    """Round 32-bit floats to their upper two bytes, so that averages are not too low.

    All are added to at once, as one long integer. No sum reaches the next float: chunks hold finite figures and NaN.
    """
    half = int.from_bytes(b"\0\x80\0\0" * (len(raw) // 4), "little")
    return (int.from_bytes(raw, "little") + half).to_bytes(len(raw), "little")
