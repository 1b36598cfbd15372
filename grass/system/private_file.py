"""Private files, such as keys and passwords: readable by their owner only, replaced atomically.

Used by ``grass`` and ``node``.
"""

from __future__ import annotations

from pathlib import Path

from grass.system.atomic_file import replace_file


def write_private(path: Path, text: str) -> None:
    """Replace a file durably. It has mode 0600 from its creation on."""
    replace_file(path, text, mode=0o600, sync=True)
