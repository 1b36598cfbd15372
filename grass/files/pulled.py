"""What was pulled to this machine. With it, a pull overwrites no file that was edited here. Used by ``transfers``.

A record per target has the size and the time of each file as rsync left it. A file that still has both was not edited.
Records are in the cluster's folder, and go with it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote_from_bytes

import msgspec

from grass.errors import UndecodableError
from grass.system.atomic_file import replace_file
from grass.wire.codec import Form, encode

FOLDER = "pulled"
"""In the folder of a cluster."""
_MOST_RECORDS = 200
"""The oldest ones are removed."""


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """How a file looked: ``size`` in bytes, ``modified`` in nanoseconds since the epoch."""

    size: int
    modified: int


class PulledFiles(msgspec.Struct, frozen=True):
    """The record of one target. ``files``: by their quoted path below the target; empty for the target itself."""

    target: str
    files: dict[str, Stamp]


_RECORD: Form[PulledFiles] = Form(PulledFiles)


class Pulled:
    """The records in ``folder``, which is made with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def edited(self, files: Iterable[Path]) -> list[Path]:
        """Return those of the files that are there and not as a pull left them, whatever its target was."""
        records: dict[Path, Mapping[str, Stamp]] = {}
        found = []
        for file in files:
            stamp, targets = stamp_of(file), (file, *file.parents)
            for target in targets:
                if target not in records:
                    records[target] = self._read(target).files
            if stamp is not None and all(records[target].get(_key(file, target)) != stamp for target in targets):
                found.append(file)
        return found

    def note(self, target: Path, files: Iterable[Path]) -> None:
        """Record these files below a target as they are now."""
        stamps = {_key(file, target): stamp for file in files if (stamp := stamp_of(file)) is not None}
        if stamps:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            known = self._read(target)
            replace_file(self._path(target), encode(PulledFiles(str(target), {**known.files, **stamps})))
            for old in sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-_MOST_RECORDS]:
                old.unlink(missing_ok=True)

    def _read(self, target: Path) -> PulledFiles:
        """Return the record of a target. An empty one if there is none or it is damaged: files then count as edited."""
        try:
            return _RECORD.decode(self._path(target).read_text())
        except (OSError, UnicodeDecodeError, UndecodableError):
            return PulledFiles("", {})

    def _path(self, target: Path) -> Path:
        return self._folder / f"{hashlib.sha256(os.fsencode(target)).hexdigest()[:32]}.json"


def stamp_of(file: Path) -> Stamp | None:
    """Return how a file or a link looks now. None: there is no such file, or it is something else."""
    try:
        found = file.lstat()
    except OSError:
        return None
    return (
        Stamp(found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode) else None
    )


def _key(file: Path, target: Path) -> str:
    return "" if file == target else quote_from_bytes(os.fsencode(file.relative_to(target)))
