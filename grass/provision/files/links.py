"""Symbolic links in a folder that is to be pushed. Called by ``transfers``; looks at the folder and changes nothing."""

from __future__ import annotations

import os
from pathlib import Path


def outward(folder: Path) -> list[tuple[str, str]]:
    """The links below ``folder`` that point outside of it, by name: (path within the folder, target).

    Absolute targets count, wherever they lead: the share lies elsewhere. Judged by the names alone, as rsync does.
    """
    found: list[tuple[str, str]] = []
    for root, folders, files in os.walk(folder):
        inside = Path(root).relative_to(folder)
        for path in (Path(root) / name for name in (*folders, *files)):
            if path.is_symlink() and _leaves(len(inside.parts), target := path.readlink()):
                found.append((str(inside / path.name), str(target)))
    return sorted(found)


def _leaves(depth: int, target: Path) -> bool:
    """Whether ``target``, of a link ``depth`` folders below the top, leads above the top at any step."""
    for part in target.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return target.is_absolute()
