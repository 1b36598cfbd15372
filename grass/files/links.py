"""Symbolic links in a folder before a push. Called by ``transfers``. Reads the folder and must change nothing."""

from __future__ import annotations

import os
from pathlib import Path


def outward(folder: Path) -> list[tuple[str, str]]:
    """Return the links below ``folder`` that point outside of it, by name: (path within the folder, target).

    Absolute targets always count as outside, because the share lies at another path. As in rsync, only the names
    decide.
    """
    found: list[tuple[str, str]] = []
    for root, folders, files in os.walk(folder):
        inside = Path(root).relative_to(folder)
        for path in (Path(root) / name for name in (*folders, *files)):
            if path.is_symlink() and _leaves(len(inside.parts), target := path.readlink()):
                found.append((str(inside / path.name), str(target)))
    return sorted(found)


def _leaves(depth: int, target: Path) -> bool:
    """Return whether ``target`` leads above the top at any step. The link lies ``depth`` folders below the top."""
    for part in target.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return target.is_absolute()
