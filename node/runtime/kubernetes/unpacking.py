"""Unpacks what a pod sends as a tar, and moves it into the folder of its job. Used by ``outputs``.

The tar comes from a container that a user controls. So only folders, files and links that stay inside are unpacked,
into a folder that nobody else can enter, and the links last: nothing is ever written through one. ``tarfile``'s own
filters are not enough: they follow links that they have made, and older Pythons have none. The job's folder may have
links of other tasks in it; none is followed on the way into it.
"""

from __future__ import annotations

import errno
import os
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from grass.errors import InputError

MOST_FILES = 200_000
_MOST_HEADER = 1 << 20
"""Bytes of a long name or of further attributes, which are read into memory."""
_DEEPEST = 64
_PIECE = 1 << 18
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Entry(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Entry:
        found = super().frombuf(buf, encoding, errors)
        if found.size < 0 or (found.type in _HEADERS and found.size > _MOST_HEADER):
            raise tarfile.ReadError("a header is too long")
        return found


class _Bounded:
    def __init__(self, stream: Readable, most: int) -> None:
        self._stream = stream
        self._left = most
        self._most = most

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise InputError(f"they are larger than {self._most >> 20} MiB")
        return data


def unpack(stream: Readable, folder: Path, most: int) -> int:
    """Unpack a tar into an empty folder. ``most``: its bytes. Return how many entries were left out.

    Raises InputError: it is too large; tarfile.TarError: it is broken, or ends too early; OSError.
    """
    left_out = count = 0
    links: list[tuple[Path, str]] = []
    bounded: IO[bytes] = _Bounded(stream, most)  # type: ignore[assignment]
    with tarfile.open(fileobj=bounded, mode="r|", tarinfo=_Entry) as archive:
        while (entry := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # it would keep them all
            count += 1
            if count > MOST_FILES:
                raise InputError(f"they are more than {MOST_FILES} files")
            left_out += not _unpack(archive, entry, folder, links)
    while bounded.read(_PIECE):
        pass
    for path, target in links:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        except (FileExistsError, NotADirectoryError):
            left_out += 1
    return left_out


def _unpack(archive: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path, links: list[tuple[Path, str]]) -> bool:
    parts = _parts(entry.name)
    if parts is None:
        return False
    path = folder.joinpath(*parts)
    try:
        if entry.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif not parts:
            return False
        elif entry.issym():
            if not stays(entry.linkname, len(parts) - 1):
                return False
            links.append((path, entry.linkname))
        elif entry.islnk():
            target = _parts(entry.linkname)
            if not target:
                return False
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(folder.joinpath(*target), path, follow_symlinks=False)
        elif entry.isreg() and not entry.issparse():  # holes would fill a disk without being sent
            _write(archive, entry, path)
        else:
            return False
    except (FileExistsError, FileNotFoundError, NotADirectoryError):  # entries that contradict each other
        return False
    return True


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(entry)
    assert source is not None
    with path.open("xb") as file:
        shutil.copyfileobj(source, file, _PIECE)
        if file.tell() != entry.size:
            raise tarfile.ReadError("unexpected end of data")
        if entry.mode & 0o111:
            os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode | 0o111)
    with suppress(OSError, OverflowError, ValueError):
        os.utime(path, (entry.mtime, entry.mtime))


def _parts(name: str) -> list[str] | None:
    """Return the path inside the folder. None: it leads out of it, or is no path."""
    parts = [each for each in name.split("/") if each not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or len(parts) > _DEEPEST:
        return None
    return parts


def stays(target: str, depth: int) -> bool:
    """Return whether a link in a folder ``depth`` levels below the top leads to somewhere below the top, whatever else
    is a link there: it goes up first, not too far, and then only down."""
    parts = [each for each in target.split("/") if each not in ("", ".")]
    up = next((index for index, each in enumerate(parts) if each != ".."), len(parts))
    return bool(target) and not target.startswith("/") and "\0" not in target and up <= depth and ".." not in parts[up:]


def merge(source: Path, parent: Path, name: str) -> None:
    """Move what is in ``source`` into the folder ``name`` of ``parent``, over what is there. Each file is replaced at
    once. Raises OSError."""
    top = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=top)
        _merge(source, _enter(top, name))
    finally:
        os.close(top)


def _enter(parent: int, name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


def _merge(source: Path, into: int) -> None:
    """Closes ``into``."""
    try:
        for entry in list(os.scandir(source)):
            try:
                _move(entry, into)
            except OSError as error:
                if not entry.is_dir(follow_symlinks=False) or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                _merge(Path(entry.path), _enter(into, entry.name))
    finally:
        os.close(into)


def _move(entry: os.DirEntry[str], into: int) -> None:
    try:
        os.rename(entry.path, entry.name, dst_dir_fd=into)
    except NotADirectoryError:  # a folder takes the place of a file or a link
        os.unlink(entry.name, dir_fd=into)
        os.rename(entry.path, entry.name, dst_dir_fd=into)
