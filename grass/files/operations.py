"""Operations on the share besides transfers, with typed requests and answers. Pure.

``access`` sends an operation as one JSON object over SSH, and ``share`` carries it out on the master host. The answer
comes back the same way. Over SSH, a request is the operation with its name in ``operation``; a reply is ``{"answer":
…}`` or ``{"error": {"code", "message"}}``. Used by this package, ``grass.cli``, ``grass.dashboard`` and
``grass.provision``.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from grass.wire.codec import Form

A = TypeVar("A")


class FileType(str, Enum):
    """What lies under a path. Links are not followed."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


class FileEntry(msgspec.Struct, frozen=True):
    """A file or folder. ``size`` in bytes, ``modified`` in wall seconds, ``mode`` in octal digits."""

    name: str
    type: FileType
    size: int
    modified: float
    mode: str


class RemovedFiles(msgspec.Struct, frozen=True):
    removed: str


class ImageEntry(msgspec.Struct, frozen=True):
    """An image in ``images/index.json``.

    ``config``, ``layers``: digests, lowest layer first. ``size``: total bytes. ``pushed``: wall seconds. ``user``: who
    pushed it, and whose quota its parts count for; empty: an administrator. The master says who it was.
    """

    id: str
    config: str
    layers: tuple[str, ...]
    size: int
    pushed: float
    user: str = ""

    @property
    def blobs(self) -> tuple[str, ...]:
        return (self.config, *self.layers)


Index = dict[str, ImageEntry]


class RemovedImage(msgspec.Struct, frozen=True):
    """Result of removing an image. ``freed``: bytes."""

    removed: str
    freed: int


class Operation(msgspec.Struct, Generic[A], frozen=True, tag_field="operation"):
    """An operation. Its answer is an ``A``, which ``answer`` decodes."""

    answer: ClassVar[Form[Any]]


class ListFiles(Operation[list[FileEntry]], frozen=True, tag="list"):
    """List the folder ``path``, or the file."""

    path: str
    answer: ClassVar = Form(list[FileEntry])


class TypeOf(Operation[FileType], frozen=True, tag="kind"):
    path: str
    answer: ClassVar = Form(FileType)


class FileDigest(msgspec.Struct, frozen=True):
    """A file below a folder. ``name``: its path from there. ``digest``: SHA-256; empty: it was not read."""

    name: str
    size: int
    digest: str


class DigestFiles(Operation[list[FileDigest]], frozen=True, tag="digests"):
    """Return what is in the folder ``path`` and below, and its content as digests."""

    path: str
    answer: ClassVar = Form(list[FileDigest])


class OpenedFile(msgspec.Struct, frozen=True):
    """Answer to ``ReadFile``. Over SSH, so many bytes follow the line of the reply."""

    size: int


class ReadFile(Operation[OpenedFile], frozen=True, tag="read"):
    """Send the content of a file."""

    path: str
    answer: ClassVar = Form(OpenedFile)


class RemoveFiles(Operation[RemovedFiles], frozen=True, tag="remove"):
    path: str
    recursive: bool
    answer: ClassVar = Form(RemovedFiles)


class ListImages(Operation[Index], frozen=True, tag="images"):
    answer: ClassVar = Form(Index)


class MissingBlobs(Operation[list[str]], frozen=True, tag="missing"):
    """Return the ``digests`` that are missing in the share."""

    digests: list[str]
    answer: ClassVar = Form(list[str])


class AddImage(Operation[ImageEntry], frozen=True, tag="add-image"):
    """Add an image to the index after its blobs have arrived."""

    name: str
    entry: ImageEntry
    answer: ClassVar = Form(ImageEntry)


class RemoveImage(Operation[RemovedImage], frozen=True, tag="remove-image"):
    name: str
    answer: ClassVar = Form(RemovedImage)


AnyOperation = ListFiles | TypeOf | DigestFiles | RemoveFiles | ListImages | MissingBlobs | AddImage | RemoveImage
OPERATION: Form[AnyOperation | ReadFile] = Form(AnyOperation | ReadFile)
INDEX: Form[Index] = Form(Index)


class Problem(msgspec.Struct, frozen=True):
    """A ``GrassError``, identified by its code."""

    code: str
    message: str


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    answer: msgspec.Raw = msgspec.Raw(b"null")
    error: Problem | None = None


REPLY: Form[Reply] = Form(Reply)
