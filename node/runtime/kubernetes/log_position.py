"""How far the log of a pod has been copied, and which lines of an answer are new. Pure; used by ``logs``.

The API gives each line a timestamp, and answers from a time on, cut to the second and inclusive. So a copy that goes on
gets lines once more; what tells them apart is (timestamp, number of lines with that timestamp). If the last copied line
is missing in the answer, the kubelet has removed it, and perhaps others behind it: nobody knows how many.
"""

from __future__ import annotations

import re

from grass.errors import GrassError

_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z ?")
_PART = 16 * 1024
"""Bytes after which a container runtime splits a line. Each part has a timestamp of its own in the answer."""


class NoLogError(GrassError):
    """The kubelet answers with a sentence of its own, and status 200: the log is gone, or not there yet."""


class LogPosition:
    """``last``: timestamp of the last copied line; None: none was. ``count``: copied lines with that timestamp."""

    def __init__(self, last: bytes | None = None, count: int = 0) -> None:
        self.last = last
        self.count = count
        self._seen = 0
        self._found = last is None
        """Whether the last copied line was seen in this answer, or there is none."""

    def since(self) -> str | None:
        """Return from when on to ask; begins a new answer."""
        self._seen, self._found = 0, self.last is None
        return None if self.last is None else self.last[:19].decode() + "Z"

    def take(self, line: bytes) -> tuple[bytes | None, bool]:
        """Return the text of a line without its timestamp, or None for a line that was copied before; and whether lines
        may be missing in front of it. ``line``: without its newline. Raises NoLogError for what is no line of a log."""
        match = _LINE.match(line)
        if match is None:
            raise NoLogError(line.decode(errors="replace"))
        stamp = match[1] + b"." + (match[2] or b"").ljust(9, b"0")
        if self.last is not None and stamp < self.last:
            return None, False
        if stamp == self.last:
            self._seen += 1
            self._found = self._found or self._seen >= self.count
            if self._seen <= self.count:
                return None, False
            self.count = self._seen
            return _text(line, match.end()), False
        lost, self._found = not self._found, True
        self.last, self.count, self._seen = stamp, 1, 1
        return _text(line, match.end()), lost


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
