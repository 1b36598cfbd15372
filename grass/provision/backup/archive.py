"""Content of a backup: a compressed tar stream inside the sealed file. Used by ``making`` and ``unpacking``.

backup.json      ``BackedUp``
dump.rdb         redis' own dump of all keys
home/…           files of the cluster's folder, relative to it
"""

from __future__ import annotations

import fcntl
import gzip
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from grass.errors import ConflictError, GrassError
from grass.model.amounts import show_memory
from grass.provision.backup.sealed_file import AlteredError, Reader, Writer, opened
from grass.system import disk
from grass.system.atomic_file import sync_folder
from grass.wire.backup import BackupHeader

SUFFIX = ".grass-backup"
MANIFEST, DUMP, HOME = "backup.json", "dump.rdb", "home"
STATE, LOGS, DATA = "state", "logs", "data"
_LEFT_FREE = 4 * disk.FULL
"""Bytes of a disk that a backup leaves free: the cluster may use the same disk."""
_LOOK_EVERY = 1 << 20
_DRAFT = ".partial"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_NOT_STATE = frozenset(
    {"redis", "log", "ends", "daemon-logs", "data", "node", "run", "supervisord.conf", "confirmed", "mode"}
    | {"backup", "backup.lock", "restoring", "restored-from", "predecessor", "made", "started", "fluentd", "at-boot"}
    | {"term", "moved-from", "moved-as", "replaced-by", "moved-to"}
)
"""Parts of a cluster's folder that are of this machine, made anew at a start, or of another part of the backup."""
REPLACED = "replaced-"
"""Folders with what a restore replaced."""
_OF_NODES = frozenset({"log", "node"})
"""The same in the folders of namespaces, ``nodes/NAME``."""


class NoSpaceError(GrassError):
    """Too little space is left on a disk; nothing was changed."""

    code = "no-space"
    exit_code = 74


def state_files(home: Path) -> Iterator[Path]:
    """Yield the files that make the master: configuration, secrets, keys, users, namespaces, accounts of redis."""
    for path in sorted(home.iterdir()):
        if path.name not in _NOT_STATE and not path.name.startswith(REPLACED):
            yield from (path,) if path.is_file() else _below(path, path.name == "nodes")
    yield from (path for path in (home / "redis" / "users.acl",) if path.exists())


def _below(folder: Path, nodes: bool) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not (nodes and len(parts) > 1 and parts[1] in _OF_NODES):
            yield path


def other_files(home: Path, share: Path, parts: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield files and folders of those other parts of the backup, with their names in the cluster's folder. They may
    grow and vanish meanwhile."""
    if LOGS in parts:
        for path in _walk(home / "daemon-logs", ()):
            yield str(path.relative_to(home)), path
        for path in _walk(share / "logs", ()):
            yield str(Path("data") / path.relative_to(share)), path
    if DATA in parts:
        for path in _walk(share, (share / "logs",)):
            yield str(Path("data") / path.relative_to(share)), path


def _walk(folder: Path, without: Sequence[Path]) -> Iterator[Path]:
    for path, folders, files in os.walk(folder):
        here = Path(path)
        if here in without:
            folders.clear()
            continue
        yield from (here, *(here / name for name in sorted(files)))
        yield from (here / name for name in folders if (here / name).is_symlink())


@contextmanager
def drafted(target: Path) -> Iterator[BinaryIO]:
    """Yield a new file beside ``target``, which appears there only when the block has ended well.

    Raises ConflictError: the file exists, or is being written; and NoSpaceError.
    """
    _remove_abandoned(target.parent)
    draft = target.with_name(f"{target.name}{_DRAFT}")
    try:
        file = Watched(draft)
    except FileExistsError as error:
        raise ConflictError(f"{target}: another backup is being written there; choose another name") from error
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        if target.exists():  # while the draft is there, nobody else gives a file this name
            raise ConflictError(f"{target}: exists already; choose another name")
        yield cast("BinaryIO", file)
        file.sync()
        draft.rename(target)
        sync_folder(target.parent)
    finally:
        with suppress(OSError):
            file.close()
        draft.unlink(missing_ok=True)


class Packing:
    """Seals members into ``file``."""

    def __init__(self, file: BinaryIO, header: BackupHeader, passphrase: str) -> None:
        self._sealed = Writer(file, header, passphrase)
        self._zip = gzip.GzipFile(fileobj=self._sealed, mode="wb", compresslevel=1, filename="", mtime=0)
        self._tar = tarfile.TarFile(fileobj=self._zip, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name: str, path: Path) -> None:
        """Add a file as it is now, a folder without its content, or a link. One that has vanished is left out."""
        with suppress(FileNotFoundError):
            info = tarfile.TarInfo(name)
            found = path.lstat()
            info.mode, info.mtime = stat.S_IMODE(found.st_mode), found.st_mtime
            if stat.S_ISLNK(found.st_mode):
                info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
                self._tar.addfile(info)
            elif stat.S_ISDIR(found.st_mode):
                info.type = tarfile.DIRTYPE
                self._tar.addfile(info)
            elif stat.S_ISREG(found.st_mode):
                with path.open("rb") as file:
                    info.size = os.fstat(file.fileno()).st_size
                    self._tar.addfile(info, cast("BinaryIO", _Fixed(file)))

    def finish(self) -> None:
        self._tar.close()
        self._zip.close()
        self._sealed.finish()


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes left that were killed: nobody locks it any more."""
    for path in folder.glob(f"*{SUFFIX}{_DRAFT}"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


class _Fixed:
    """A file that other programs may cut short while it is read: zeros follow then, up to the size that was seen."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        return self._file.read(size).ljust(size, b"\0")


class Watched:
    """A new private file that leaves its disk some space. Raises NoSpaceError, also from ``write``."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        _check_space(self._folder)
        self._file = os.fdopen(os.open(path, _NEW, 0o600), "wb")
        self._since_look = 0

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, data: bytes) -> int:
        self._since_look += len(data)
        if self._since_look >= _LOOK_EVERY:
            _check_space(self._folder)
            self._since_look = 0
        return self._file.write(data)

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _check_space(folder: Path) -> None:
    """Raises NoSpaceError."""
    free = disk.free(folder)
    if free < _LEFT_FREE:
        raise NoSpaceError(
            f"{folder}: only {show_memory(free)} of its disk are free, and a backup leaves {show_memory(_LEFT_FREE)}; "
            "free some space, or choose another folder; nothing was changed"
        )


@contextmanager
def members(path: Path, passphrase: str) -> Iterator[tuple[BackupHeader, Iterator[tuple[tarfile.TarInfo, BinaryIO]]]]:
    """Yield the header, and an iterator over the members with their contents, in order.

    When the iterator has ended, the whole file is proven to be as it was written. Until then nothing that came from it
    may be used. Raises NotABackupError, PassphraseError and AlteredError.
    """
    with opened(path) as (header, file):
        reader = Reader(path, file, header, passphrase)
        yield header, _each(path, reader)


def _each(path: Path, reader: Reader) -> Iterator[tuple[tarfile.TarInfo, BinaryIO]]:
    try:
        plain = gzip.GzipFile(fileobj=cast("BinaryIO", reader), mode="rb")
        with plain, tarfile.open(fileobj=plain, mode="r|") as tar:
            for info in tar:
                yield info, cast("BinaryIO", tar.extractfile(info) if info.isreg() else io.BytesIO())
    except (tarfile.TarError, gzip.BadGzipFile, EOFError) as error:
        raise AlteredError(f"{path}: its content cannot be read ({error}); take another backup") from error
    reader.finish()
