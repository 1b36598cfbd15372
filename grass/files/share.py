"""Operations on the share by a user with write access: listing, removing, and the index of images.

``serve.py`` runs them as the user `grass` of the master host. For a cluster on this machine, the CLI runs them itself.
The share's folder is the argument; paths are relative to it and are checked by ``paths``.

Images: ``images/blobs/<sha256>`` holds each image's configuration and its layers (uncompressed, by the digest of their
content, so that images share layers). ``images/index.json`` maps a name to its ``ImageEntry``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from grass.errors import ConflictError, GrassError, InputError, NotFoundError, UndecodableError
from grass.files import paths
from grass.files.operations import (
    INDEX,
    AddImage,
    AnyOperation,
    DigestFiles,
    FileDigest,
    FileEntry,
    FileType,
    ImageEntry,
    Index,
    ListFiles,
    ListImages,
    MissingBlobs,
    RemovedFiles,
    RemovedImage,
    RemoveFiles,
    RemoveImage,
    TypeOf,
)
from grass.model.exhaustive import assert_never
from grass.model.image import MOST_INDEX
from grass.model.names import is_digest, is_image_name
from grass.system.atomic_file import replace_file
from grass.system.bounded_file import UnfitFileError, read_at_most
from grass.system.exclusive import exclusive
from grass.system.tree_removal import remove_tree
from grass.wire.codec import indented

MOST_DIGESTS = 10_000
"""Files of one answer about digests. Of what lies beyond them nothing is said."""
MOST_DIGESTED = 1 << 30
"""Bytes that are read for such an answer. Larger files, and those beyond, have no digest."""
_TYPES = {stat.S_IFLNK: FileType.LINK, stat.S_IFDIR: FileType.FOLDER}


def carry_out(share: Path, operation: AnyOperation) -> object:
    """Return the operation's answer. Raises GrassError; system errors are converted to one."""
    try:
        match operation:
            case ListFiles(path):
                return list_files(share, path)
            case TypeOf(path):
                return type_of(share, path)
            case DigestFiles(path):
                return digest_files(share, path)
            case RemoveFiles(path, recursive):
                return remove_files(share, path, recursive)
            case ListImages():
                return read_index(share)
            case MissingBlobs(digests):
                return missing_blobs(share, digests)
            case AddImage(name, entry):
                return add_image(share, name, entry)
            case RemoveImage(name):
                return remove_image(share, name)
            case _:
                assert_never(operation)
    except OSError as error:
        raise GrassError(f"{error.filename or share}: {error.strerror}") from error


def list_files(share: Path, path: str) -> list[FileEntry]:
    """List the folder, or the file itself; hidden files are left out."""
    target = _inside(share, paths.to_read(path), follow=True)
    if not target.exists():
        raise NotFoundError(f"{path!r}: not found in the share")
    if not target.is_dir():
        return [_entry(target)]
    shown: list[FileEntry] = []
    for each in target.iterdir():
        if not each.name.startswith("."):
            with suppress(FileNotFoundError):  # a task has just removed it
                shown.append(_entry(each))
    return sorted(shown, key=lambda entry: entry.name)


def type_of(share: Path, path: str) -> FileType:
    target = _inside(share, paths.to_read(path))
    if not (target.exists() or target.is_symlink()):
        raise NotFoundError(f"{path!r}: not found in the share")
    return _entry(target).type


def digest_files(share: Path, path: str, most: int = MOST_DIGESTS, most_bytes: int = MOST_DIGESTED) -> list[FileDigest]:
    """Return the regular files below a folder, in the order of their names; of ``most_bytes`` the digests, too."""
    top = _inside(share, paths.to_read(path))
    if not top.is_dir():
        raise NotFoundError(f"{path!r}: there is no such folder in the share")
    found: list[FileDigest] = []
    for name in _names_below(top, most):
        with suppress(NotFoundError, InputError, OSError):  # a link, or a task has just removed it
            with open_file(share, str(Path(path, name))) as file:
                size = os.fstat(file.fileno()).st_size
                digest = hashlib.sha256(file.read(size)).hexdigest() if size <= most_bytes else ""
            most_bytes -= size if digest else 0
            found.append(FileDigest(name, size, digest))
    return found


def _names_below(top: Path, most: int) -> list[str]:
    """Return so many names of files, without hidden ones; links are not followed."""
    names: list[str] = []
    for folder, below, files in os.walk(top):
        below[:] = sorted(each for each in below if not each.startswith("."))
        names += (os.path.relpath(Path(folder, each), top) for each in sorted(files) if not each.startswith("."))
        if len(names) >= most:
            break
    return sorted(names[:most])


def open_file(share: Path, path: str) -> IO[bytes]:
    """Open a regular file. No symbolic link is followed: a task could change one between a check and its use."""
    *folders, name = paths.to_read(path).split("/")
    here = os.open(share, os.O_PATH | os.O_DIRECTORY)  # the user may read no list of its names
    try:
        for folder in folders:
            inner = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        found = os.open(name or ".", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    except FileNotFoundError:
        raise NotFoundError(f"{path!r}: not found in the share") from None
    except OSError as error:
        raise InputError(f"{path!r} cannot be read as a file: {error.strerror}") from error
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise InputError(f"{path!r} is not a file")
    return os.fdopen(found, "rb")


def remove_files(share: Path, path: str, recursive: bool) -> RemovedFiles:
    """Remove a file or a link; a folder only if it is empty, or with ``recursive``."""
    target = _inside(share, paths.to_remove(path))
    if target.is_symlink() or target.is_file():
        target.unlink()
    elif not target.is_dir():
        raise NotFoundError(f"{path!r}: not found in the share")
    elif recursive:
        remove_tree(target)
    elif any(target.iterdir()):
        raise ConflictError(f"{path!r} is a folder with files in it; --recursive removes it with them")
    else:
        target.rmdir()
    return RemovedFiles(path)


def missing_blobs(share: Path, digests: list[str]) -> list[str]:
    """Return which of these parts of images are not in the share."""
    folder = _blobs(share)
    return [digest for digest in digests if not (folder / _digest(digest)).is_file()]


def add_image(share: Path, name: str, entry: ImageEntry) -> ImageEntry:
    """Add an image after all its blobs have arrived; each new blob is checked against its digest.

    What a user sent for an image that cannot be added does not stay among the blobs: it would count for nobody.
    """
    if not is_image_name(name):
        raise InputError(f"{name!r} is not the name of an image")
    taken: list[Path] = []
    try:
        if entry.user:
            _take_incoming(share, entry, taken)
        return _add_arrived(share, name, entry)
    except (GrassError, OSError):
        with _locked(share):
            _remove_unused(taken, read_index(share))
        raise


def _add_arrived(share: Path, name: str, entry: ImageEntry) -> ImageEntry:
    absent = missing_blobs(share, list(entry.blobs))
    if absent:
        raise ConflictError(f"image {name}: {len(absent)} of its parts have not arrived; push it again")
    with _locked(share):
        index = read_index(share)
        known = {digest for each in index.values() for digest in each.blobs}
        for digest in set(entry.blobs) - known:
            _check_blob(share, name, digest)
        _write_index(share, {**index, name: entry})
    return entry


def incoming(user: str) -> str:
    """Return the folder of the share that receives the parts of images of a user who is not an administrator.

    So that nobody can replace a part that belongs to another image.
    """
    return f"images/incoming/{user}"


def _take_incoming(share: Path, entry: ImageEntry, taken: list[Path]) -> None:
    """Put the parts of an image that its user sent beside the others, once all are there.

    They are copied: the user may have another name for a file, or have it open, and change it before it is checked.
    ``taken``: receives the new blobs, also if an error ends this.
    """
    folder = share / incoming(entry.user) / "blobs"
    with _locked(share):
        missing = missing_blobs(share, list(entry.blobs))
        if not all((folder / digest).is_file() for digest in missing):
            return
        for digest in missing:
            sent = folder / digest
            try:
                descriptor = os.open(sent, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue  # it is a link: ``add_image`` misses it
            with os.fdopen(descriptor, "rb") as file:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    _copy(file, _blobs(share) / digest)
                    taken.append(_blobs(share) / digest)
                    sent.unlink(missing_ok=True)


def remove_image(share: Path, name: str) -> RemovedImage:
    """Remove an image from the index, and the blobs that no other image needs."""
    with _locked(share):
        index = read_index(share)
        if name not in index:
            known = ", ".join(sorted(index)[:5]) or "none"
            raise NotFoundError(f"there is no image {name} in the cluster; it has {known}")
        del index[name]
        _write_index(share, index)
        freed = _remove_unused(_blobs(share).iterdir(), index)
    return RemovedImage(name, freed)


def _remove_unused(blobs: Iterable[Path], index: Index) -> int:
    """Remove those of the blobs that no image needs. Return their bytes."""
    needed = {digest for each in index.values() for digest in each.blobs}
    freed = 0
    for blob in blobs:
        if blob.name not in needed and is_digest(blob.name):
            with suppress(FileNotFoundError):
                freed += blob.stat().st_size
                blob.unlink()
    return freed


def _inside(share: Path, path: str, *, follow: bool = False) -> Path:
    """Return the path in the share. A symbolic link must not lead out. ``follow``: also follow the last component."""
    target = share / path
    root, real = share.resolve(), (target if follow or not path else target.parent).resolve()
    if real != root and root not in real.parents:
        raise InputError(f"{path!r} leaves the share by a symbolic link")
    return target


def _entry(path: Path) -> FileEntry:
    status = path.lstat()
    kind = _TYPES.get(stat.S_IFMT(status.st_mode), FileType.FILE)
    return FileEntry(path.name, kind, status.st_size, status.st_mtime, oct(status.st_mode & 0o7777)[2:])


def blob_path(share: Path, digest: str) -> Path:
    """Return where the part of an image is."""
    return share / "images" / "blobs" / digest


def _blobs(share: Path) -> Path:
    folder = blob_path(share, "")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _copy(file: IO[bytes], blob: Path) -> None:
    draft = blob.with_name(f".{blob.name}")
    try:
        with draft.open("wb") as target:
            draft.chmod(0o644)
            shutil.copyfileobj(file, target, 1 << 20)
        draft.replace(blob)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _digest(text: str) -> str:
    if not is_digest(text):
        raise InputError(f"{text!r} is not a digest")
    return text


def _check_blob(share: Path, name: str, digest: str) -> None:
    blob = _blobs(share) / digest
    with blob.open("rb") as file:
        found = hashlib.sha256()
        while piece := file.read(1 << 20):
            found.update(piece)
    if found.hexdigest() != digest:
        blob.unlink()
        raise ConflictError(f"image {name}: a part was damaged during the transfer and was removed; push it again")


def read_index(share: Path) -> Index:
    """Return all images by name. Raises ConflictError if the list is damaged."""
    try:
        return INDEX.decode(read_at_most(share / "images" / "index.json", MOST_INDEX))
    except FileNotFoundError:
        return {}
    except (UndecodableError, UnfitFileError) as error:
        raise ConflictError(
            f"{share}/images/index.json, the list of images in the share, is damaged ({error}); remove that file there "
            "and push the images again (their parts are in the share, and are not sent again)"
        ) from error


def _write_index(share: Path, index: Index) -> None:
    replace_file(share / "images" / "index.json", indented(dict(sorted(index.items()))), mode=0o644, sync=True)


@contextmanager
def _locked(share: Path) -> Iterator[None]:
    _blobs(share)
    with exclusive(share / "images" / ".lock"):
        yield
