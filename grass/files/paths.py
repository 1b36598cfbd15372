"""Checks of the paths of the share that a user may name. Pure.

The share holds ``logs/`` and ``images/``, which belong to Grass, ``jobs/<job id>/`` with the output of each job, and
the files of users. ``GRASS_DATA`` names it in tasks; ``node.runtime.isolation.visible_files`` says what an isolated one
sees. Used by ``grass`` and ``master``.
"""

from __future__ import annotations

from grass.errors import InputError

OWN = frozenset({"logs", "images"})
JOBS = "jobs"
_LONGEST = 1024


def to_read(text: str) -> str:
    """Return the path within the share, without a slash at its ends; empty: the whole share.

    Raises InputError: the path leaves the share.
    """
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("~") or ".." in parts:
        raise InputError(f"{text!r} leaves the share: name a path inside it, such as mnist/train")
    if len(text) > _LONGEST or any(character < " " or character == "\x7f" for character in text):
        raise InputError(f"{text[:80]!r} cannot be the name of a file in the share")
    return "/".join(parts)


def to_write(text: str) -> str:
    """Check as ``to_read``, and refuse the folders that belong to Grass."""
    path = to_read(text)
    if not path:
        raise InputError("name a path in the share, such as mnist/train")
    first = path.partition("/")[0]
    if first in OWN or first == JOBS:
        raise InputError(f"{first}/ in the share is written by Grass itself; choose another folder")
    return path


def to_remove(text: str) -> str:
    """Check as ``to_write``, but allow the output of a job: ``jobs/<job id>`` and below."""
    path = to_read(text)
    if path.startswith(f"{JOBS}/"):
        return path
    return to_write(text)
