"""Reader of `docker save` archives: unpacks configuration and layers, each into a file named by its content's digest.

Both formats are read: the one of old engines (``<id>/layer.tar``) and OCI's (``blobs/sha256/…``, perhaps compressed). A
layer's digest is the digest of its uncompressed tar, as in the image's configuration (the "diff id"). Equal layers of
different images are therefore equal files. Used by ``transfers``.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from grass.errors import InputError, UndecodableError
from grass.files.image_programs import on_path, path_of
from grass.files.operations import ImageEntry
from grass.wire.codec import Form

_PIECE = 1 << 20
_SMALL = 8 << 20
"""Size limit in bytes: configurations and manifests are smaller than this; anything larger is a layer."""
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Image:
    """An image. ``names``: tags. ``config``, ``layers``: digests, lowest layer first. ``size``: total bytes.

    ``programs``: those of frameworks on its PATH. None: not known, because its entrypoint decides what a command finds.
    """

    names: tuple[str, ...]
    config: str
    layers: tuple[str, ...]
    size: int
    programs: tuple[str, ...] | None = None

    def entry(self, pushed: float) -> ImageEntry:
        return ImageEntry(f"sha256:{self.config}", self.config, self.layers, self.size, pushed)


@dataclass(frozen=True)
class _Member:
    digest: str
    size: int
    content: bytes | None
    """Content of a small member. Whether a member is a configuration is known only at the end of the archive."""


class _Listed(msgspec.Struct, frozen=True, rename="pascal"):
    """One image in ``manifest.json``: names of members of the archive, and its tags."""

    config: str
    layers: list[str]
    repo_tags: list[str] | None = None


class _RootFs(msgspec.Struct, frozen=True):
    diff_ids: list[str]


class _Settings(msgspec.Struct, frozen=True, rename="pascal"):
    """What a container of the image gets by default."""

    env: list[str] | None = None
    entrypoint: list[str] | None = None


class _Config(msgspec.Struct, frozen=True):
    rootfs: _RootFs
    config: _Settings | None = None


_MANIFEST: Form[list[_Listed]] = Form(list[_Listed])
_CONFIG: Form[_Config] = Form(_Config)


def unpack(stream: IO[bytes], folder: Path, source: str) -> list[Image]:
    """Write every blob of the archive into ``folder`` and return its images. Raises InputError: it is not an image."""
    members: dict[str, _Member] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=stream, mode="r|*") as archive:
            for info in archive:
                name = info.name.removeprefix("./")
                if info.isfile():
                    members[name] = _store(cast(IO[bytes], archive.extractfile(info)), folder)
                elif info.issym():
                    links[name] = _joined(name, info.linkname)
                elif info.islnk():
                    links[name] = info.linkname
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"{source} is not an image archive: {error}") from error
    return _images(members, links, folder, source)


def _joined(name: str, link: str) -> str:
    """Return the target of a link. Old engines store a layer that two images share as a link to the first copy."""
    parts = name.split("/")[:-1]
    for part in link.split("/"):
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return "/".join(parts)


def _store(content: IO[bytes], folder: Path) -> _Member:
    """Store the blob, uncompressed, under its digest."""
    first = content.read(4)
    if first.startswith(_ZSTD):
        raise InputError(
            "a layer is compressed with zstd, which is not supported; save the image with gzip or uncompressed"
        )
    whole = _Rewound(first, content)
    reader: Any = gzip.GzipFile(fileobj=cast(Any, whole)) if first.startswith(_GZIP) else whole
    found, size, head = hashlib.sha256(), 0, b""
    draft = folder / ".draft"
    with draft.open("wb") as file:
        while piece := reader.read(_PIECE):
            found.update(piece)
            size += len(piece)
            file.write(piece)
            if size <= _SMALL:
                head += piece
    digest = found.hexdigest()
    draft.replace(folder / digest)
    return _Member(digest, size, head if size <= _SMALL else None)


class _Rewound:
    """A stream whose first bytes were already read for detection."""

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        self._first = first
        self._rest = rest

    def read(self, size: int = -1) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            if size < 0:
                return first + self._rest.read()
            if len(first) > size:
                first, self._first = first[:size], first[size:]
                return first
            return first + self._rest.read(size - len(first))
        return self._rest.read(size)


def _images(members: Mapping[str, _Member], links: Mapping[str, str], folder: Path, source: str) -> list[Image]:
    manifest = members.get("manifest.json")
    if manifest is None or manifest.content is None:
        raise InputError(f"{source} is not an image: it has no manifest.json; use an archive written by `docker save`")
    try:
        return [_image(one, members, links, folder) for one in _MANIFEST.decode(manifest.content)]
    except (ValueError, KeyError, UndecodableError) as error:
        raise InputError(f"{source}: its manifest.json is not valid ({error})") from error


def _image(one: _Listed, members: Mapping[str, _Member], links: Mapping[str, str], folder: Path) -> Image:
    config = members[one.config]
    settings = _CONFIG.decode(config.content or b"{}")
    wanted = [diff.removeprefix("sha256:") for diff in settings.rootfs.diff_ids]
    layers = [members[links.get(path, path)] for path in one.layers]
    if [layer.digest for layer in layers] != wanted:
        raise ValueError("its layers are not those that its configuration names")
    size = config.size + sum(layer.size for layer in layers)
    programs = _programs(settings.config or _Settings(), [folder / digest for digest in wanted])
    return Image(tuple(one.repo_tags or ()), config.digest, tuple(wanted), size, programs)


def _programs(settings: _Settings, layers: list[Path]) -> tuple[str, ...] | None:
    if settings.entrypoint:
        return None
    try:
        return on_path(path_of(settings.env), layers)
    except (tarfile.TarError, OSError):  # the engine judges layers
        return None


def blobs_of(images: Collection[Image]) -> list[str]:
    """Return every digest once, in a stable order."""
    return sorted({digest for image in images for digest in (image.config, *image.layers)})
