"""Backups in a folder: their names, their list, the removal of old ones. Used by ``grass.cli.backup``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from grass.errors import GrassError, InputError, NotFoundError
from grass.provision.backup.archive import SUFFIX
from grass.provision.backup.sealed_file import opened
from grass.wire.backup import BackupHeader


@dataclass(frozen=True)
class Listed:
    """A file in the folder. ``header`` None: it cannot be read, and ``problem`` says why. Only ``verify`` proves it."""

    path: Path
    size: int
    header: BackupHeader | None
    problem: str = ""


def target(to: Path, cluster: str, now: float) -> Path:
    """Return the path of a new backup: in the folder ``to``, or ``to`` itself if that is the name of a file."""
    if "://" in str(to) or ":/" in str(to):
        raise InputError(
            f"--to {to}: backups are written to paths of this machine; copy the file with `scp` afterwards"
        )
    if to.suffix == SUFFIX:
        to.parent.mkdir(parents=True, exist_ok=True)
        return to
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    at = datetime.fromtimestamp(now, timezone.utc)
    return to / f"{cluster}-{at:%Y%m%dT%H%M%SZ}{SUFFIX}"


def found(folder: Path) -> list[Listed]:
    """Return the backups in a folder, the newest first; files that cannot be read come last.

    Raises NotFoundError: there is no such folder.
    """
    if not folder.is_dir():
        raise NotFoundError(f"{folder}: there is no such folder; `grass backup` makes a backup")
    listed = [_listed(path) for path in folder.glob(f"*{SUFFIX}")]
    return sorted(listed, key=lambda each: (each.header is None, -(each.header.made if each.header else 0.0)))


def _listed(path: Path) -> Listed:
    size = path.stat().st_size
    try:
        with opened(path) as (header, _):
            return Listed(path, size, header)
    except GrassError as error:
        return Listed(path, size, None, str(error))


def prune(folder: Path, master: str, keep: int) -> list[Path]:
    """Remove all but the ``keep`` newest backups of one cluster, and return their paths."""
    own = [each.path for each in found(folder) if each.header is not None and each.header.master == master]
    for path in own[keep:]:
        path.unlink(missing_ok=True)
    return own[keep:]
