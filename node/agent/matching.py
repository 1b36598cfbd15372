"""Whether a line of a file matches a regular expression.

Most need exponential time on some line. Those are tried by this file as a program, which can be killed: in a thread of
the agent, one would stop all the others.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable

CPU_SECONDS = 1.0
"""After which a line is passed over."""
_PIECE = 1 << 16
"""A longer line is looked at in pieces of at least so many bytes."""
_LONGEST_SIMPLE = 64
_NUMBERED = re.compile(r"\\[xuUN0-9]")
"""Escapes that are longer than one character."""
_VARIABLE = re.compile(r"(?s)(?:\\.|.)(?:[*?]|\{[^}]*\}?)+|\\.|[.^$*+?{}]")
"""All that does not stand for itself, or need not be there."""


def simple(expression: str) -> re.Pattern[bytes] | None:
    """Compiled, if it takes as many steps at most as a line has bytes, times its own length: nothing in it repeats."""
    if len(expression) > _LONGEST_SIMPLE or set("*+?{(").intersection(expression):
        return None
    try:
        return re.compile(expression.encode(errors="surrogatepass"))
    except re.error:
        return None


def needed(expression: str) -> bytes:
    """Text that is in every line that matches; empty where that is not seen at once."""
    if set("|([").intersection(expression) or _NUMBERED.search(expression):
        return b""
    return max(_VARIABLE.split(expression), key=len).encode(errors="surrogatepass")


def look(search: Callable[[bytes], object], path: str, begin: int) -> tuple[bool, int, int]:
    """Look at the lines of a file from byte ``begin`` on, also at the last one, which may not be complete.

    Returns whether one matches, where the next look has to begin, and where the file ended. Raises OSError.
    """
    rest = b""
    with open(path, "rb") as file:  # noqa: PTH123 (starts in milliseconds)
        file.seek(begin)
        while data := file.read(_PIECE):
            *lines, rest = (rest + data).split(b"\n")
            if any(search(line) for line in (*lines, rest)):
                return True, begin, begin
            rest = rest[-_PIECE:]
        end = file.tell()
    return False, end - len(rest), end


def main(path: str, begin: str) -> None:
    """The expression comes on the standard input; four numbers go out: what ``look`` returns, and lines passed over."""
    with open(0, "rb") as file:
        search = _search(file.read())
    passed_over = 0

    def patient(line: bytes) -> bool:
        nonlocal passed_over
        try:
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                return search(line)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except TimeoutError:
            passed_over += 1
            return False

    signal.signal(signal.SIGPROF, _give_up)
    matches, begins, end = look(patient, path, int(begin))
    os.write(1, b"%d %d %d %d" % (matches, begins, end, passed_over))


def _search(expression: bytes) -> Callable[[bytes], bool]:
    """Some are right for text only, such as those with a \\N{name}."""
    try:
        pattern = re.compile(expression)
    except (re.error, ValueError):
        of_text = re.compile(expression.decode())
        return lambda line: of_text.search(line.decode(errors="replace")) is not None
    return lambda line: pattern.search(line) is not None


def _give_up(*_: object) -> None:
    raise TimeoutError  # Python's engine looks for signals while it matches


if __name__ == "__main__":
    main(*sys.argv[1:])
