"""Which files the commands of a job name: programs and scripts, so that two runs can be compared. Pure.

Only names that stand in a command as they are; what a program reads by itself is not known. Used by
``master.api.named_files``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import normpath

from grass.model.job import Job

MOST_FILES = 64
"""Names that are looked at."""
LONGEST_NAME = 512
_SHARE = re.compile(r"\$(?:GRASS_DATA|\{GRASS_DATA\})/+([^\s'\"`;|&()<>$*?=]+)")
_WORD = re.compile(r"[^\s'\"`;|&()<>$*?=]+")


def local_names(job: Job) -> tuple[str, ...]:
    """Return the relative paths that may be files in the folder of the job, each below its component's ``cwd``."""
    found = dict.fromkeys(
        f"{part.cwd}/{word}" if part.cwd else word
        for part in job.components.values()
        for text in _texts(part.command)
        for word in _WORD.findall(_SHARE.sub("", text))
        if _is_below(word) and _is_below(part.cwd or "") and len(word) <= LONGEST_NAME
    )
    return tuple(found)[:MOST_FILES]


def shared_names(job: Job) -> tuple[str, ...]:
    """Return the paths below ``$GRASS_DATA`` that may be files or folders which commands name.

    Those are what follows ``$GRASS_DATA/``, and words of a component whose ``cwd`` is relative to the share. The paths
    are normalised, so that a caller can recognise folders that are not the user's; the share as a whole is left out.
    """
    literal = (
        word
        for part in job.components.values()
        for text in _texts(part.command)
        for word in _SHARE.findall(text)
        if len(word) <= LONGEST_NAME
    )
    found = dict.fromkeys(normpath(word) for word in (*literal, *_below_cwd(job)) if _is_below(word))
    return tuple(name for name in found if name != ".")[:MOST_FILES]


def _below_cwd(job: Job) -> Iterator[str]:
    """Yield the words of commands below ``cwd``, where ``cwd`` is or may be relative to the share."""
    for part in job.components.values():
        if part.cwd and (part.base is None or part.image is not None):
            for text in _texts(part.command):
                words = _WORD.findall(_SHARE.sub("", text))
                yield from (f"{part.cwd}/{word}" for word in words if _is_below(word) and len(word) <= LONGEST_NAME)


def _texts(command: str | tuple[str, ...]) -> Iterator[str]:
    yield from (command,) if isinstance(command, str) else command


def _is_below(path: str) -> bool:
    return not path.startswith(("/", "-", "~")) and ".." not in path.split("/")
