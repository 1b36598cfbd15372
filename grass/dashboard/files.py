"""What the page needs of the share. Called by ``app``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from grass.files.operations import FileDigest, FileEntry


class Content(Protocol):
    @property
    def size(self) -> int: ...

    @property
    def pieces(self) -> Iterator[bytes]: ...


class Files(Protocol):
    """The share, with the user's rights. The CLI passes one; the dashboard does not know how to reach it."""

    def entries(self, path: str) -> Sequence[FileEntry]: ...

    def digests(self, path: str) -> Sequence[FileDigest]: ...

    def read(self, path: str) -> AbstractContextManager[Content]: ...


def exactly(content: Content) -> Iterator[bytes]:
    """Yield as many bytes as were announced, although a task may still write to the file."""
    left = content.size
    for piece in content.pieces:
        yield piece[:left]
        left -= len(piece[:left])
        if not left:
            return
