"""Makes a backup of a cluster whose redis runs on this machine, while its jobs run. Used by ``local`` and, on the
machine of a master, by ``grass.provision.on_premises.backup_on_host``."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from grass import __version__
from grass.api import keyring
from grass.config import ClusterConfig, Secrets
from grass.errors import ConflictError, InputError
from grass.provision.backup import scratch
from grass.provision.backup.archive import (
    DUMP,
    HOME,
    MANIFEST,
    STATE,
    Packing,
    Watched,
    drafted,
    other_files,
    state_files,
)
from grass.provision.backup.sealed_file import COST
from grass.provision.backup.unpacking import scratch_folder
from grass.provision.filelock import file_lock
from grass.store import embedded
from grass.store.keys import Keys
from grass.store.redis_copy import fetch
from grass.system import clock
from grass.system.entropy import request_id
from grass.wire.backup import BackedUp, BackupHeader
from grass.wire.codec import encode


def make(
    config: ClusterConfig, target: Path, passphrase: str, parts: Sequence[str], cost: int = COST
) -> tuple[BackupHeader, BackedUp]:
    """Write a backup to the new file ``target``.

    Raises ConflictError: the file exists, or another backup is being made; InputError: the redis is the user's own, or
    the file would be in the cluster's folder; UnreachableError: redis does not run; NoSpaceError.
    """
    if target.resolve().is_relative_to(Path(config.home).resolve()):
        raise InputError(f"{target}: is in the folder of the cluster, and would go with it; choose another folder")
    with drafted(target) as file:
        return pack(config, file, passphrase, parts, cost)


def pack(
    config: ClusterConfig,
    file: BinaryIO,
    passphrase: str,
    parts: Sequence[str],
    cost: int = COST,
    *,
    server: embedded.Server | None = None,
    also: Mapping[str, str] | None = None,
) -> tuple[BackupHeader, BackedUp]:
    """Write a backup into ``file``. ``server``: the program that the cluster's redis is; None: that of clusters here.
    ``also``: texts of more files, by their paths in the cluster's folder. Raises what ``make`` raises."""
    if not config.redis.embedded or config.redis.socket is None:
        raise InputError(
            f"cluster {config.name}: its state is in your own redis; back that up with its own tools, and "
            f"{config.home} with it"
        )
    home = Path(config.home)
    try:
        with file_lock(home / "backup.lock", 0.0), scratch_folder(home / "backup") as folder:
            for name, text in (also or {}).items():
                path = folder / HOME / name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.write_text(text)
            header = _header(config, parts, cost)
            return header, _pack(config, Packing(file, header, passphrase), parts, folder, server)
    except TimeoutError as error:
        raise ConflictError(f"cluster {config.name}: another backup of it is being made; wait for that") from error


def _header(config: ClusterConfig, parts: Sequence[str], cost: int) -> BackupHeader:
    return BackupHeader(
        cluster=config.name,
        mode=config.mode,
        master=str(keyring.master_key(config.master_dir)["kid"]),
        made=clock.wall(),
        grass=__version__,
        parts=(STATE, *parts),
        salt=request_id(),
        cost=cost,
    )


def _pack(
    config: ClusterConfig, packing: Packing, parts: Sequence[str], folder: Path, server: embedded.Server | None
) -> BackedUp:
    home = Path(config.home)
    _fetch(config, folder / "dump.rdb")
    _copy(home, folder / HOME)  # at once: they change seldom, and belong to this moment
    content = _read(config, folder, server)
    (folder / MANIFEST).write_text(encode(content))
    packing.add(MANIFEST, folder / MANIFEST)
    packing.add(DUMP, folder / "dump.rdb")
    for path in sorted((folder / HOME).rglob("*")):
        if path.is_file():
            packing.add(str(path.relative_to(folder)), path)
    for name, path in other_files(home, config.data_dir, parts):
        packing.add(f"{HOME}/{name}", path)
    packing.finish()
    return content


def _fetch(config: ClusterConfig, path: Path) -> None:
    assert config.redis.socket is not None, "the redis is the cluster's own"
    password = Secrets.load(config.home).redis["admin"]
    with closing(Watched(path)) as file:
        fetch(config.redis.socket, "admin", password, file.write)


def _read(config: ClusterConfig, folder: Path, program: embedded.Server | None) -> BackedUp:
    """Return what a redis says that has loaded the copy."""
    with scratch.loaded(folder, program) as server:
        keys, digest = server.digest()
        version = ".".join(map(str, server.version()))
        return BackedUp(keys=keys, digest=digest, jobs=server.jobs(Keys(config.key_prefix)), redis=version)


def _copy(home: Path, folder: Path) -> None:
    for path in state_files(home):
        copy = folder / path.relative_to(home)
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy2(path, copy)
