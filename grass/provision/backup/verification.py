"""Reads a backup as a restore would, in a folder of its own, and changes nothing. Used by ``grass.cli.backup``."""

from __future__ import annotations

from pathlib import Path

from grass.provision.backup.unpacking import Unpacked, scratch_folder, tried, unpack
from grass.provision.filelock import file_lock

_PATIENCE = 600.0


def verify(file: Path, passphrase: str, home: Path) -> Unpacked:
    """Prove every byte of the file, load its copy of the keys into a redis, and compare. ``home``: GRASS_HOME.

    Raises what ``unpack`` and ``tried`` raise.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file_lock(home / ".verify.lock", _PATIENCE), scratch_folder(home / ".verify") as folder:
        unpacked = unpack(file, passphrase, folder / "content", only_state=True)
        with tried(unpacked):
            return unpacked
