"""Where the share is mounted, as the kernel lists it: a look that touches no mount, so a dead one cannot hang it."""

from __future__ import annotations

import re
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def mount_point(path: Path, table: str | None = None) -> str:
    """Of the file system that ``path``, which is absolute, lies on; ``/`` where nothing is mounted above it."""
    lines = (table if table is not None else _TABLE.read_text()).splitlines()
    points = (_ESCAPED.sub(lambda match: chr(int(match[1], 8)), line.split()[4]) for line in lines)
    return max((point for point in points if path.is_relative_to(point)), key=len, default="/")
