"""The part of a backup and a restore that runs on the master's machine, as user `grass`.

    back-up    read ``BackUp``; print the sealed file, and ``Made`` as the last line of the errors
    restore    read ``Restore``; fill the folder of the master

Called as ``python -m grass.provision.on_premises.backup_on_host ACTION``, over SSH by ``backup`` and ``restore``. Both
read standard input, because it has the passphrase. Errors go to standard error, with their exit code.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec

from grass.config import ClusterConfig
from grass.errors import ConflictError, GrassError
from grass.provision.backup import making, restoring
from grass.provision.backup.sealed_file import AlteredError
from grass.provision.backup.unpacking import scratch_folder, unpack
from grass.provision.filelock import file_lock
from grass.provision.on_premises.facts import REPLACED_BY
from grass.provision.on_premises.on_host import STARTED
from grass.store import embedded
from grass.supervision import predecessor
from grass.supervision.moved import MOVED_TO, TERM
from grass.wire.backup import BackedUp, BackupHeader
from grass.wire.codec import Form, encode

RESTORED_FROM = "restored-from"
"""File of the master with the salt of the backup that it was restored from: the same restore is not done twice."""
OF_CLIENT = "client"
"""Folder of a backup with what the client knew that made it: how it reaches the machines."""
_PATIENCE = 600.0


class BackUp(msgspec.Struct):
    """Input of ``back_up``. ``path``: of ``cluster.json``. ``server``: the program of the master's redis. ``also``: as
    of ``making.pack``."""

    path: str
    passphrase: str
    parts: tuple[str, ...]
    server: str
    also: dict[str, str]


class Made(msgspec.Struct):
    """What is in the sealed file."""

    header: BackupHeader
    content: BackedUp


class Restore(msgspec.Struct):
    """Input of ``restore``. ``file``: the backup, which is removed at the end. ``config``: of the new master.
    ``replaced``: put the state that is there aside. ``predecessors``: host and port of the redis of each old master
    that could not be stopped. ``term``: the highest that is known."""

    file: str
    passphrase: str
    config: ClusterConfig
    server: str
    replaced: bool
    predecessors: tuple[str, ...] = ()
    term: int = 0


BACK_UP: Form[BackUp] = Form(BackUp)
MADE: Form[Made] = Form(Made)
RESTORE: Form[Restore] = Form(Restore)


def back_up(asked: BackUp) -> None:
    config, server = ClusterConfig.load(asked.path), embedded.server_at(Path(asked.server))
    header, content = making.pack(
        config, sys.stdout.buffer, asked.passphrase, asked.parts, server=server, also=asked.also
    )
    sys.stdout.buffer.flush()
    sys.stderr.write(f"\n{encode(Made(header, content))}\n")


def restore(asked: Restore) -> None:
    """Raises ConflictError: the folder has the state of a cluster, or is of another one; and what ``unpack`` and
    ``write_redis`` raise. Nothing was changed then."""
    config, file = asked.config, Path(asked.file)
    folder = Path(config.home)
    try:
        with file_lock(folder.parent / f".restore-{config.name}.lock", _PATIENCE):
            _restore(asked, config, file, folder)
    finally:
        file.unlink(missing_ok=True)


def _restore(asked: Restore, config: ClusterConfig, file: Path, folder: Path) -> None:
    header = restoring.header_of(file)
    if restoring.key_in(folder) not in ("", header.master):
        raise ConflictError(f"{folder}: is of another cluster {config.name} than the backup; nothing was changed")
    restoring.check_state(folder, config.name, asked.replaced)
    with scratch_folder(folder.parent / f".restore-{config.name}") as scratch:
        unpacked = unpack(file, asked.passphrase, scratch / "content")
        if restoring.configuration(unpacked.home, config.name).name != config.name:
            raise AlteredError(f"{file}: its configuration is of another cluster; take another backup")
        term = restoring.write_redis(unpacked, embedded.server_at(Path(asked.server)), asked.term)
        shutil.rmtree(unpacked.home / OF_CLIENT, ignore_errors=True)
        config.save(unpacked.home / "cluster.json")
        (unpacked.home / RESTORED_FROM).write_text(header.salt)
        (unpacked.home / TERM).write_text(f"{term}\n")
        predecessor.write(unpacked.home, asked.predecessors, config)
        for name in (
            "made",
            STARTED,
            REPLACED_BY,
            MOVED_TO,
            predecessor.PREDECESSOR,
        ):  # what they say is of the time before
            (folder / name).unlink(missing_ok=True)
        restoring.place(unpacked.home, folder, config.data_dir)


def main(action: str, text: str) -> int:
    try:
        if action == "back-up":
            back_up(BACK_UP.decode(text))
        else:
            restore(RESTORE.decode(text))
    except (GrassError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code if isinstance(error, GrassError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.stdin.read()))
