"""Lines of a text: only a line feed ends one, as for the programs that tasks run. Used by all packages.

``str.splitlines`` also splits at form feeds, NEL, U+2028 and more, and ``bytes.splitlines`` at a lone carriage return.
Names of files and of processes may hold these.
"""

from __future__ import annotations

import re
from typing import AnyStr


def lines_of(text: AnyStr) -> list[AnyStr]:
    """Return the lines without their ends. A carriage return before the line feed belongs to the end."""
    feed, carriage = ("\n", "\r") if isinstance(text, str) else (b"\n", b"\r")
    lines = text.split(feed)
    last = lines.pop()
    return [line.removesuffix(carriage) for line in lines] + ([last] if last else [])


def whole_lines_of(text: str) -> list[str]:
    """Return the lines with their ends."""
    return [line for line in re.split(r"(?<=\n)", text) if line]
