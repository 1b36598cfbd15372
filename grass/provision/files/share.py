"""What is done beside the share, by whoever may write there: listing, removing, and the index of images.

Run by ``serve.py`` as the user `grass` of the master host, or in the CLI itself for a cluster on this machine. The
share's folder is the argument; paths are relative to it and were checked by ``paths``.

Images: ``images/blobs/<sha256>`` holds each image's configuration and its layers (uncompressed, by the digest of their
content, so images share them); ``images/index.json`` is name → {"id", "config", "layers", "size", "pushed"}.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grass.errors import ConflictError, GrassError, InputError, NotFoundError
from grass.provision.files import paths

Answer = Any
_DIGEST = re.compile(r"[0-9a-f]{64}")
_IMAGE = re.compile(r"[a-z0-9][a-zA-Z0-9._/:@-]{0,254}")


def list_files(share: Path, path: str) -> list[dict[str, Any]]:
    """``{"name", "type": file|folder|link, "size", "modified", "mode"}`` of what is in the folder, or of the file."""
    place = _inside(share, paths.to_read(path), follow=True)
    if not place.exists():
        raise NotFoundError(f"there is no {path!r} in the share")
    if not place.is_dir():
        return [_entry(place)]
    return sorted((_entry(each) for each in place.iterdir() if not each.name.startswith(".")), key=_by_name)


def kind_of(share: Path, path: str) -> str:
    """``file``, ``folder`` or ``link``."""
    place = _inside(share, paths.to_read(path))
    if not (place.exists() or place.is_symlink()):
        raise NotFoundError(f"there is no {path!r} in the share")
    kind: str = _entry(place)["type"]
    return kind


def remove_files(share: Path, path: str, recursive: bool) -> dict[str, Any]:
    place = _inside(share, paths.to_remove(path))
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif not place.is_dir():
        raise NotFoundError(f"there is no {path!r} in the share")
    elif recursive:
        shutil.rmtree(place)
    elif any(place.iterdir()):
        raise ConflictError(f"{path!r} is a folder with files in it; --recursive removes it with them")
    else:
        place.rmdir()
    return {"removed": path}


def list_images(share: Path) -> dict[str, Any]:
    return _read_index(share)


def missing_blobs(share: Path, digests: list[str]) -> list[str]:
    folder = _blobs(share)
    return [digest for digest in digests if not (folder / _digest(digest)).is_file()]


def add_image(share: Path, name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Make an image known once all of its blobs are here; each that is new is checked against its digest."""
    if not _IMAGE.fullmatch(name):
        raise InputError(f"{name!r} is not the name of an image")
    digests = [_digest(digest) for digest in (entry["config"], *entry["layers"])]
    absent = missing_blobs(share, digests)
    if absent:
        raise ConflictError(f"image {name}: {len(absent)} of its parts have not arrived; push it again")
    with _locked(share):
        index = _read_index(share)
        known = {digest for each in index.values() for digest in (each["config"], *each["layers"])}
        for digest in set(digests) - known:
            _check_blob(share, name, digest)
        index[name] = entry
        _write_index(share, index)
    return entry


def remove_image(share: Path, name: str) -> dict[str, Any]:
    """Forget an image, and remove the blobs that no other needs."""
    with _locked(share):
        index = _read_index(share)
        if name not in index:
            known = ", ".join(sorted(index)[:5]) or "none"
            raise NotFoundError(f"there is no image {name} in the cluster; it has {known}")
        del index[name]
        _write_index(share, index)
        needed = {digest for each in index.values() for digest in (each["config"], *each["layers"])}
        freed = 0
        for blob in _blobs(share).iterdir():
            if blob.name not in needed and _DIGEST.fullmatch(blob.name):
                freed += blob.stat().st_size
                blob.unlink()
    return {"removed": name, "freed": freed}


OPERATIONS: dict[str, Callable[..., Answer]] = {
    "list": list_files,
    "kind": kind_of,
    "remove": remove_files,
    "images": list_images,
    "missing": missing_blobs,
    "add-image": add_image,
    "remove-image": remove_image,
}


def carry_out(share: Path, operation: str, arguments: dict[str, Any]) -> Answer:
    """One of ``OPERATIONS``. Raises GrassError; what the system refuses becomes one."""
    if operation not in OPERATIONS:
        raise InputError(f"this version of Grass on the master knows no {operation!r}")
    try:
        return OPERATIONS[operation](share, **arguments)
    except OSError as error:
        raise GrassError(f"{error.filename or share}: {error.strerror}") from error
    except (TypeError, KeyError) as error:
        raise InputError(f"{operation}: malformed arguments ({error})") from error


def _inside(share: Path, path: str, *, follow: bool = False) -> Path:
    """Symbolic links may point anywhere: following one must not lead out. ``follow``: the last one, too."""
    place = share / path
    root, real = share.resolve(), (place if follow or not path else place.parent).resolve()
    if real != root and root not in real.parents:
        raise InputError(f"{path!r} leaves the share by a symbolic link")
    return place


def _entry(path: Path) -> dict[str, Any]:
    status = path.lstat()
    kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
    return {
        "name": path.name,
        "type": kind,
        "size": status.st_size,
        "modified": status.st_mtime,
        "mode": oct(status.st_mode & 0o7777)[2:],
    }


def _by_name(entry: dict[str, Any]) -> str:
    name: str = entry["name"]
    return name


def _blobs(share: Path) -> Path:
    folder = share / "images" / "blobs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
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
        raise ConflictError(f"image {name}: a part of it was damaged on its way and was removed; push it again")


def _read_index(share: Path) -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads((share / "images" / "index.json").read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ConflictError(
            f"{share}/images/index.json, the list of images in the share, is damaged ({error}); remove that file there "
            "and push the images again (what they consist of is there, and not sent again)"
        ) from error
    return index


def _write_index(share: Path, index: dict[str, Any]) -> None:
    draft = share / "images" / ".index.json.new"
    draft.write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.replace(share / "images" / "index.json")


@contextmanager
def _locked(share: Path) -> Iterator[None]:
    _blobs(share)
    with (share / "images" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
