"""Which paths of the share a user may name. Pure.

The share holds ``logs/`` and ``images/``, which are Grass's own, ``jobs/<job id>/``, what each job wrote, and besides
them whatever users put there. A task sees all of it under ``GRASS_DATA``.
"""

from __future__ import annotations

from grass.errors import InputError

OWN = frozenset({"logs", "images"})
JOBS = "jobs"
_LONGEST = 1024


def to_read(text: str) -> str:
    """The path within the share, without a slash at its ends; empty: all of it. InputError: it leaves the share."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("~") or ".." in parts:
        raise InputError(f"{text!r} leaves the share: name a path inside it, such as mnist/train")
    if len(text) > _LONGEST or any(character < " " or character == "\x7f" for character in text):
        raise InputError(f"{text[:80]!r} cannot be the name of a file in the share")
    return "/".join(parts)


def to_write(text: str) -> str:
    """As ``to_read``, and not one of the folders that Grass keeps."""
    path = to_read(text)
    if not path:
        raise InputError("name a path in the share, such as mnist/train")
    first = path.partition("/")[0]
    if first in OWN or first == JOBS:
        raise InputError(f"{first}/ in the share is written by Grass itself; choose another folder")
    return path


def to_remove(text: str) -> str:
    """As ``to_write``, and what a job wrote: ``jobs/<job id>`` and below."""
    path = to_read(text)
    if path.startswith(f"{JOBS}/"):
        return path
    return to_write(text)
