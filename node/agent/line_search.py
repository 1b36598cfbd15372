"""Search for a line in an output file that grows. Used by readiness checks."""

from __future__ import annotations

import os

from grass.model.expression import Expression

_PIECE = 1 << 16
"""Bytes read at once. Only the beginning of a line that is longer is searched."""
_HEAD = 256
"""Bytes from its beginning that show whether a file was rewritten."""


class GrowingFile:
    """One file. Each search sees the output since the last one, and the line that was incomplete then."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._head = b""
        self._begin = 0
        """Offset of the incomplete line."""
        self._end = 0
        self._inside = False
        """Whether ``_begin`` is inside a line that is too long."""

    def matches(self, expression: Expression) -> bool:
        """Return whether a new line matches; the last one may lack its newline. Raises OSError."""
        with open(self.path, "rb") as file:  # noqa: PTH123 (starts in milliseconds)
            head, size = file.read(_HEAD), os.fstat(file.fileno()).st_size
            if size < self._end or not head.startswith(self._head):  # its task truncated it
                self._begin, self._inside = 0, False
            elif size == self._end:
                return False
            self._head, rest = head, b""
            file.seek(self._begin)
            while data := file.read(_PIECE):
                *lines, rest = (rest + data).split(b"\n")
                if self._inside and not lines:
                    rest = b""
                    continue
                if any(expression.search(line.removesuffix(b"\r")) for line in (*lines[self._inside :], rest)):
                    return True
                self._inside = len(rest) >= _PIECE
                if self._inside:
                    rest = b""
            self._end = file.tell()
            self._begin = self._end - len(rest)
        return False
