"""Brings the files of a master to another machine while it works, and what has changed since then, once it is stopped.

    have      print a ``Listing`` of what is here
    send      read the ``Listing`` of the other machine; print a tar stream of what differs there
    receive   read such a stream, and make the files the same
    digest    print a digest of all content: both machines print the same once nothing is left to send

Called as ``python -m grass.provision.on_premises.mirror ACTION PLACES``, as user `grass`, on both machines by
``copying``. Links are never followed: tasks make links in the share. Of a log, which only grows, the new end is sent.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import msgspec
from msgspec import structs

from grass.errors import GrassError, InputError
from grass.model.amounts import show_memory
from grass.system import clock, disk
from grass.wire.codec import Form, encode

HOME, SHARE = "home", "share"
STATE = frozenset({"master", "redis", "tls", "fluentd", "ends", "daemon-logs", "predecessor"})
"""Parts of the master's folder that move with it, beside its secrets. The configuration is written anew."""
_FILES = frozenset({"secrets.json"})
_GROWING = (f"{SHARE}/logs/", f"{HOME}/daemon-logs/", f"{HOME}/redis/appendonlydir/")
_LEFT_FREE = 4 * disk.FULL
_SAME = 64 << 10
"""Bytes at the begin and at the end of what is there that are compared before only the rest of a log is sent."""
_FROM, _GONE = "GRASS.from", ".gone"
_PIECE = 1 << 20
_YOUNG = 2_000_000_000
"""Nanoseconds: a file that changed so lately may change again without a sign; it is looked at again."""


class NoSpaceError(GrassError):
    """The disk of the new master is full. Nothing of the old one was changed."""

    code = "no-space"
    exit_code = 74


class Places(msgspec.Struct, frozen=True):
    """Folders of one machine. ``share`` empty: the share is not the master's, and stays where it is. ``live``: files
    may change meanwhile."""

    home: str
    share: str = ""
    live: bool = True

    @property
    def still(self) -> Places:
        return structs.replace(self, live=False)

    def folder(self, name: str) -> Path:
        root, _, rest = name.partition("/")
        if root not in self.roots() or ".." in PurePosixPath(rest).parts:
            raise InputError(f"{name!r}: is outside of the folders of a master")
        return Path(self.roots()[root]) / rest

    def roots(self) -> dict[str, str]:
        return {HOME: self.home, **({SHARE: self.share} if self.share else {})}


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A file (``f``), folder (``d``) or link (``l``). ``ends``: digest of the begin and the end of a log."""

    kind: str
    mode: int = 0
    size: int = 0
    changed: int = 0
    link: str = ""
    ends: str = ""


class Listing(msgspec.Struct, frozen=True):
    """What a machine has: entries by key (``_key``). ``free``: bytes of the fuller disk."""

    entries: dict[str, Entry]
    free: int

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries.values())


PLACES: Form[Places] = Form(Places)
LISTING: Form[Listing] = Form(Listing)
_NAMES: Form[list[str]] = Form(list[str])


def listing(places: Places) -> Listing:
    found, free = {}, []
    for root, folder in places.roots().items():
        path = Path(folder)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        free.append(disk.free(path))
        for name, at, descriptor in _walk(root, path):
            with suppress(FileNotFoundError):
                entry = _entry(name, at, descriptor)
                if entry is not None:
                    found[_key(name)] = entry
    return Listing(found, min(free))


def _walk(root: str, folder: Path) -> Iterator[tuple[str, str, int]]:
    """Yield the name in the listing, the name in its folder, and the descriptor of that folder: parents first."""
    for at, folders, files, descriptor in os.fwalk(folder):
        inside = Path(at).relative_to(folder)
        if root == HOME and not inside.parts:
            folders[:] = [each for each in folders if each in STATE]
        folders.sort()
        for each in (*folders, *sorted(files)):
            if root == HOME and not inside.parts and each not in STATE | _FILES:
                continue
            if not each.startswith("temp-"):  # of redis, while it rewrites its log
                yield str(PurePosixPath(root, *inside.parts, each)), each, descriptor


def _key(name: str) -> str:
    """Return the name with each byte as one character: names of files need not be UTF-8, and JSON has to be."""
    return os.fsencode(name).decode("latin-1")


def _entry(name: str, at: str, folder: int) -> Entry | None:
    found = os.stat(at, dir_fd=folder, follow_symlinks=False)
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        return Entry("d", mode)
    if stat.S_ISLNK(found.st_mode):
        return Entry("l", link=_key(os.readlink(at, dir_fd=folder)))
    if not stat.S_ISREG(found.st_mode):
        return None  # sockets and pipes are made by who listens there
    ends = ""
    if name.startswith(_GROWING):
        with _opened(at, folder) as file:
            ends = _ends(file, found.st_size)
    return Entry("f", mode, found.st_size, found.st_mtime_ns, ends=ends)


def _opened(at: str, folder: int) -> BinaryIO:
    return os.fdopen(os.open(at, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder), "rb")


def _ends(file: BinaryIO, size: int) -> str:
    found = hashlib.sha256()
    for start in (0, max(0, size - _SAME)):
        file.seek(start)
        found.update(file.read(min(_SAME, size - start)))
    return found.hexdigest()


def send(places: Places, there: Listing, output: BinaryIO) -> None:
    """Write what the other machine lacks. A file that cannot be read ends it: whoever moves has to know."""
    with tarfile.open(fileobj=output, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        seen = set()
        for root, folder in places.roots().items():
            for name, at, descriptor in _walk(root, Path(folder)):
                try:
                    _send(tar, name, at, descriptor, there.entries.get(_key(name)), live=places.live)
                    seen.add(_key(name))
                except FileNotFoundError:
                    continue
                except PermissionError as error:
                    path = places.folder(name)
                    raise InputError(f"{path}: the user grass cannot read it; change its owner or remove it") from error
        gone = sorted(there.entries.keys() - seen, reverse=True)
        text = encode(gone).encode()
        info = tarfile.TarInfo(_GONE)
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))


def _send(tar: tarfile.TarFile, name: str, at: str, folder: int, there: Entry | None, *, live: bool) -> None:
    found = os.stat(at, dir_fd=folder, follow_symlinks=False)
    info = tarfile.TarInfo(name)
    info.mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        info.type = tarfile.DIRTYPE
        if there != Entry("d", info.mode):
            tar.addfile(info)
    elif stat.S_ISLNK(found.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(at, dir_fd=folder)
        if there != Entry("l", link=_key(info.linkname)):
            tar.addfile(info)
    elif stat.S_ISREG(found.st_mode):
        same = there is not None and there.kind == "f" and there.mode == info.mode
        if there is None or not same or (there.size, there.changed) != (found.st_size, found.st_mtime_ns):
            with _opened(at, folder) as file:
                _send_file(tar, info, file, there if same else None, live=live)


def _send_file(tar: tarfile.TarFile, info: tarfile.TarInfo, file: BinaryIO, there: Entry | None, *, live: bool) -> None:
    found = os.fstat(file.fileno())
    begin = 0
    if there is not None and there.ends and there.size <= found.st_size and _ends(file, there.size) == there.ends:
        begin = there.size
    young = live and found.st_mtime_ns > clock.wall() * 1e9 - _YOUNG
    info.size = found.st_size - begin
    info.pax_headers = {_FROM: str(begin), "GRASS.changed": str(found.st_mtime_ns - young)}
    file.seek(begin)
    tar.addfile(info, _Fixed(file))


class _Fixed(io.RawIOBase):
    """A file that its writer may cut short while it is read: zeros follow then. It is sent again later."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size).ljust(size, b"\0")


def receive(places: Places, source: BinaryIO) -> None:
    """Make the files here the same. It ends well only if the stream was whole. Everything is on the disk then."""
    whole = False
    with tarfile.open(fileobj=source, mode="r|") as tar:
        for info in tar:
            data = tar.extractfile(info) if info.isreg() else None
            if info.name == _GONE and data is not None:
                for name in _NAMES.decode(data.read()):
                    _remove(places.folder(os.fsdecode(name.encode("latin-1"))))
                whole = True
            else:
                _receive(places.folder(info.name), info, data)
    if not whole:
        raise InputError("the files of the old master came only in part")
    os.sync()


def _receive(path: Path, info: tarfile.TarInfo, data: object) -> None:
    if any(each.is_symlink() for each in path.parents):
        raise InputError(f"{path}: a link leads there")
    if info.isdir():
        if path.is_symlink() or not path.is_dir():
            _remove(path)
            path.mkdir()
        path.chmod(info.mode | 0o700)
    elif info.issym():
        _remove(path)
        path.symlink_to(info.linkname)
    else:
        begin, changed = int(info.pax_headers[_FROM]), int(info.pax_headers["GRASS.changed"])
        if not begin:
            _remove(path)
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | (0 if begin else os.O_CREAT | os.O_EXCL)
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.truncate(begin)
            file.seek(begin)
            while piece := data.read(_PIECE):  # type: ignore[attr-defined] # of `extractfile`
                if disk.free(path.parent) < _LEFT_FREE:
                    raise NoSpaceError(f"{path.parent}: its disk leaves less than {show_memory(_LEFT_FREE)} free")
                file.write(piece)
            file.flush()
            os.fchmod(file.fileno(), info.mode & 0o777)
            os.utime(file.fileno(), ns=(changed, changed))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def digest(places: Places) -> str:
    """Return a digest of all names and of all content of the master's folder. Files of the share count with their size
    and time: a share may be larger than can be read in seconds."""
    found = hashlib.sha256()
    for root, folder in places.roots().items():
        for name, at, descriptor in _walk(root, Path(folder)):
            entry = _entry(name, at, descriptor)
            if entry is None:
                continue
            found.update(f"{name} {entry}\n".encode(errors="surrogateescape"))
            if root == HOME and entry.kind == "f":
                with _opened(at, descriptor) as file:
                    while piece := file.read(_PIECE):
                        found.update(piece)
    return found.hexdigest()


def main(action: str, text: str) -> int:
    places = PLACES.decode(text)
    try:
        if action == "have":
            sys.stdout.write(encode(listing(places)))
        elif action == "send":
            send(places, LISTING.decode(sys.stdin.buffer.read()), sys.stdout.buffer)
        elif action == "receive":
            receive(places, sys.stdin.buffer)
        else:
            sys.stdout.write(digest(places))
        sys.stdout.flush()
    except (GrassError, OSError, tarfile.TarError) as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code if isinstance(error, GrassError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
