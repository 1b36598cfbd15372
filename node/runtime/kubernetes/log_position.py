"""How far the log of a pod has been copied, and which lines of an answer are new. Pure; used by ``logs``.

The API gives each line a timestamp, and answers from a time on, inclusive. So a copy that goes on gets lines once more:
as many as it has copied since that time, in the same order. Timestamps do not tell them apart, because they do not
always rise: standard output and error are two streams, and the later line may be written first. The answer begins a
second early for the same reason.

If a newer line comes before as many, the kubelet has removed some. If the last copied one is among them, others behind
it may be, too: nobody knows how many.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from grass.errors import GrassError

_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ?")
_SECOND = "%Y-%m-%dT%H:%M:%S"
_PART = 16 * 1024
"""Bytes after which a container runtime splits a line. Each part has a timestamp of its own in the answer."""


class NoLogError(GrassError):
    """The kubelet answers with a sentence of its own, and status 200: the log is gone, or not there yet."""


class Copied(NamedTuple):
    """What is known of the copied lines. Stamps are UTC, with nine digits of a fraction.

    ``newest``: the largest stamp; "": no line was copied. ``last``: the stamp of the last line. ``counts``: the number
    of lines in the newest second and the one before, by second.
    """

    newest: str
    last: str
    counts: dict[str, int]


class LogPosition:
    """A place in the log of a pod. ``copied``: what an earlier agent copied."""

    def __init__(self, copied: Copied | None = None) -> None:
        self._newest, self._last, self._counts = copied or Copied("", "", {})
        self._again = sum(self._counts.values())
        """Lines that this answer begins with, if the kubelet still has them."""
        self._previous = ""

    def copied(self) -> Copied:
        return Copied(self._newest, self._last, dict(self._counts))

    def since(self) -> str | None:
        """Return from when on to ask; begins a new answer."""
        self._again, self._previous = sum(self._counts.values()), ""
        return f"{_second_before(self._newest)}Z" if self._newest else None

    def read_line(self, line: bytes) -> tuple[bytes | None, bool]:
        """Return the text of a line without its timestamp, or None for a line that was copied before; and whether lines
        may be missing in front of it. ``line``: without its newline. Raises NoLogError for what is no line of a log."""
        match = _LINE.match(line)
        if match is None:
            raise NoLogError(line.decode(errors="replace"))
        stamp = _utc(match)
        if self._again and stamp <= self._newest:
            self._again -= 1
            self._previous = stamp
            return None, False
        lost = self._again > 0 and self._previous != self._last
        self._again = 0
        self._note(stamp)
        return _text(line, match.end()), lost

    def _note(self, stamp: str) -> None:
        second = stamp[:19]
        self._last, self._newest = stamp, max(stamp, self._newest)
        if second in self._counts:
            self._counts[second] += 1
        elif second >= (first := _second_before(self._newest)):
            self._counts = {each: count for each, count in self._counts.items() if each >= first} | {second: 1}


def _utc(match: re.Match[bytes]) -> str:
    """Return a stamp that can be compared: the kubelet writes the time of its machine's zone."""
    second, fraction, zone = match[1].decode(), (match[2] or b"").decode().ljust(9, "0"), match[3].decode()
    if zone != "Z":
        second = datetime.fromisoformat(second + zone).astimezone(timezone.utc).strftime(_SECOND)
    return f"{second}.{fraction}"


def _second_before(stamp: str) -> str:
    return (datetime.fromisoformat(f"{stamp[:19]}+00:00") - timedelta(seconds=1)).strftime(_SECOND)


def _text(line: bytes, start: int) -> bytes:
    """Return the text of a line from ``start``, without the timestamps that stand in front of its further parts."""
    if len(line) - start <= _PART:
        return line[start:]
    parts = []
    while len(line) - start > _PART:
        parts.append(line[start : start + _PART])
        start += _PART
        again = _LINE.match(line, start)
        start = again.end() if again else start
    return b"".join([*parts, line[start:]])
