"""Reads a whole backup into a folder, and tries its copy of redis. Used by ``restoring`` and ``verification``."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from grass.api import keyring
from grass.provision.backup import scratch
from grass.provision.backup.archive import DUMP, HOME, MANIFEST, Watched, members
from grass.provision.backup.sealed_file import AlteredError
from grass.store import embedded
from grass.store.keys import Keys
from grass.store.redis_copy import CopyServer
from grass.wire.backup import BACKED_UP, BackedUp, BackupHeader

_STATE = ("cluster.json", "secrets.json", "master", "client", "nodes", "redis")
_PIECE = 1 << 20


@dataclass(frozen=True)
class Unpacked:
    """What lies in ``folder``: ``home`` has the files of the cluster's folder, ``redis`` the copy of its keys."""

    header: BackupHeader
    content: BackedUp
    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / HOME

    @property
    def redis(self) -> Path:
        return self.folder / "redis"


def unpack(file: Path, passphrase: str, folder: Path, *, only_state: bool = False) -> Unpacked:
    """Unpack into a new ``folder``. Every byte of the file was read and proven when this returns.

    Raises what ``members`` raises, and NoSpaceError.
    """
    (folder / "redis").mkdir(mode=0o700, parents=True)
    (folder / HOME).mkdir(mode=0o700)
    content = None
    with members(file, passphrase) as (header, found):
        for info, data in found:
            if info.name == MANIFEST:
                content = BACKED_UP.decode(data.read(_PIECE))
            elif info.name == DUMP:
                _write(folder / "redis" / "dump.rdb", info, data)
            elif not only_state or _is_state(info.name):
                _extract(file, folder, info, data)
    if content is None or not (folder / HOME / "cluster.json").exists():
        raise AlteredError(f"{file}: parts of a backup are missing in it; take another backup")
    return Unpacked(header, content, folder)


def _is_state(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return len(parts) > 1 and parts[1] in _STATE


def _extract(file: Path, folder: Path, info: tarfile.TarInfo, data: BinaryIO) -> None:
    """Write one member below ``folder``, and never through a link that another member made."""
    parts = PurePosixPath(info.name).parts
    path = folder.joinpath(*parts)
    if parts[0] != HOME or ".." in parts or any(each.is_symlink() for each in _between(folder, path)):
        raise AlteredError(f"{file}: has a member outside of its folder, {info.name!r}; nothing of it is used")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if info.issym():
        path.symlink_to(info.linkname)
    elif info.isdir():
        path.mkdir(exist_ok=True)
        path.chmod(info.mode & 0o777 | 0o700)
    elif info.isreg():
        _write(path, info, data)


def _between(folder: Path, path: Path) -> list[Path]:
    return [each for each in path.parents if each.is_relative_to(folder) and each != folder]


def _write(path: Path, info: tarfile.TarInfo, data: BinaryIO) -> None:
    with closing(Watched(path)) as file:
        while piece := data.read(_PIECE):
            file.write(piece)
        if path.name != DUMP:
            os.fchmod(file.fileno(), info.mode & 0o777)


@contextmanager
def tried(unpacked: Unpacked, program: embedded.Server | None = None) -> Iterator[CopyServer]:
    """Load the copy of the keys, and compare it with what was backed up. Yield its server. ``program``: as of
    ``scratch.loaded``.

    Raises AlteredError: something differs; CannotCopyError: redis cannot load it.
    """
    header, wanted = unpacked.header, unpacked.content
    key = str(keyring.master_key(unpacked.home / "master")["kid"])
    with scratch.loaded(unpacked.redis, program) as server:
        keys, digest = server.digest()
        jobs = server.jobs(Keys(f"grass:{header.cluster}:"))
        for what, here, there in (
            ("the master's key", key, header.master),
            ("keys of redis", keys, wanted.keys),
            ("jobs", jobs, wanted.jobs),
            ("the digest of redis", digest, wanted.digest),
        ):
            if here != there:
                raise AlteredError(f"the backup of {header.cluster}: {what}: {here}, and {there} were backed up")
        yield server


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """A private folder that is empty at the beginning of the block, also if an earlier process was killed in it, and
    gone after it. The caller has a lock."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
