"""Files of this machine that are sent to a pod as a tar, or replaced by what came from one. Used by ``transfer``."""

from __future__ import annotations

import filecmp
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from grass.errors import ConflictError, InputError
from grass.files import links
from node.runtime.kubernetes.unpacking import merge

_NAMED = 10
"""Files that an error names."""
_PIECE = 1 << 16


class SizedTar:
    """A tar of a file, or of the content of a folder, whose ``size`` is known before it is written. ``content``: bytes
    of its files.

    Raises InputError: a link leads out of the folder, or something is neither file, folder nor link.
    """

    def __init__(self, local: Path, name: str, *, copy_links: bool) -> None:
        """``name``: of a file in the tar. ``copy_links``: send what links point to."""
        if local.is_dir():
            if not copy_links:
                _refuse_outward_links(local)
            found = [(path, str(path.relative_to(local))) for path in _below(local, copy_links)]
        else:
            found = [(local.resolve(), name)]
        with tarfile.open(fileobj=io.BytesIO(), mode="w", dereference=copy_links) as archive:
            self._entries = [(path, _entry(archive, path, inside)) for path, inside in found]
        self.content = sum(entry.size for _, entry in self._entries)
        blocks = sum(len(_header(entry)) + _padded(entry.size, tarfile.BLOCKSIZE) for _, entry in self._entries)
        self.size = _padded(blocks + 2 * tarfile.BLOCKSIZE, tarfile.RECORDSIZE)

    def write(self, to: IO[bytes]) -> None:
        """Raises OSError: a file is gone, or has become shorter."""
        with tarfile.open(fileobj=to, mode="w|", format=tarfile.GNU_FORMAT, bufsize=_PIECE) as archive:
            for path, entry in self._entries:
                if entry.isreg():
                    with path.open("rb") as file:
                        archive.addfile(entry, file)
                else:
                    archive.addfile(entry)


def _refuse_outward_links(folder: Path) -> None:
    outward = links.outward(folder)
    if outward:
        named = "; ".join(f"{link} -> {target}" for link, target in outward[:_NAMED])
        raise InputError(
            f"push of {folder}: symbolic links in it point outside of it: {named}; --copy-links sends the content of "
            "what links point to, or remove these"
        )


def _entry(archive: tarfile.TarFile, path: Path, inside: str) -> tarfile.TarInfo:
    archive.inodes.clear()  # type: ignore[attr-defined]  # a file with two names is sent twice
    entry = archive.gettarinfo(path, inside)
    if entry is None or not (entry.isreg() or entry.isdir() or entry.issym()):
        raise InputError(f"{path}: is neither a file nor a folder nor a link")
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _header(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.GNU_FORMAT, tarfile.ENCODING, "surrogateescape")


def _padded(size: int, block: int) -> int:
    return -(-size // block) * block


def _below(folder: Path, follow: bool) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, followlinks=follow):
        yield from (Path(root) / each for each in (*folders, *files))


def size_of(folder: Path) -> int:
    """Return the bytes of the files in a folder."""
    return sum(path.lstat().st_size for path in _below(folder, False) if path.is_file() and not path.is_symlink())


def move(found: Path, target: Path, what: str, *, force: bool) -> None:
    """Move what has arrived to where it belongs, file by file. ``what``: for messages.

    Raises ConflictError if a file there has other content; not with ``force``.
    """
    if not force:
        _refuse_changes(found, target, what)
    if found.is_dir() and not found.is_symlink():
        merge(found, target.parent, target.name)
    else:
        found.replace(target)


def _refuse_changes(found: Path, target: Path, what: str) -> None:
    inside = [each.relative_to(found) for each in _below(found, False)] if found.is_dir() else [Path()]
    changed = [target / each for each in inside if _differs(found / each, target / each)]
    if changed:
        named = ", ".join(map(str, changed[:_NAMED]))
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        raise ConflictError(
            f"{what}: these files here have other content: {named}{more}; nothing was changed; --force overwrites, "
            "another target keeps both"
        )


def _differs(found: Path, target: Path) -> bool:
    if not os.path.lexists(target):
        return False
    if found.is_symlink() or target.is_symlink():
        return not (found.is_symlink() and target.is_symlink() and found.readlink() == target.readlink())
    if found.is_dir() and target.is_dir():
        return False
    return not (found.is_file() and target.is_file() and filecmp.cmp(found, target, shallow=False))
