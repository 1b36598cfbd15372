"""Looking for a line in an output file that grows."""

from __future__ import annotations

import os

from grass.model.expression import Expression

_PIECE = 1 << 16
"""Of a line that is longer than this, and what comes with it, only the beginning is looked at."""
_HEAD = 256
"""So many bytes from its beginning tell whether a file was begun anew."""


class GrowingFile:
    """One file, from look to look: each sees what came since the last one, and the line that was not complete then."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._head = b""
        self._begin = 0
        """Of the line that was not complete."""
        self._end = 0
        self._inside = False
        """Of a line that is too long."""

    def matches(self, expression: Expression) -> bool:
        """Whether a new line matches, the last one also without its newline. Raises OSError."""
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
