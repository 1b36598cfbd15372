"""Command lines as lists of words: quoted for a shell, or shown to people. Used by all hosts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from grass.lines import lines_of

_LONGEST_SHOWN = 300


class Secret(str):
    """Text that prints as ``[REDACTED]``. Only code that sends it over standard input calls ``reveal()``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[REDACTED]"

    def __str__(self) -> str:
        return "[REDACTED]"

    def __format__(self, spec: str) -> str:
        return format("[REDACTED]", spec)

    def reveal(self) -> str:
        return str.__str__(self)


def command_line(argv: Sequence[str]) -> str:
    """Quote ``argv`` for a POSIX shell. Raises ValueError for a secret: every user of a machine can read command
    lines."""
    if any(isinstance(word, Secret) for word in argv):
        raise ValueError("a secret may not be part of a command line; send it through standard input")
    if any("\0" in word for word in argv):
        raise ValueError("a command line cannot hold a NUL character")
    return shlex.join(argv)


def shown(argv: Sequence[str]) -> str:
    """Return ``argv`` for people: a script is shortened to its first line, a long line in its middle."""
    words = [f"{lines_of(word.strip())[0]} …" if "\n" in word.strip() else word for word in argv]
    line = shlex.join(words)
    return line if len(line) <= _LONGEST_SHOWN else f"{line[: _LONGEST_SHOWN - 40]} … {line[-36:]}"
