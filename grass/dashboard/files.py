"""What the page needs of the share. Called by ``app``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from grass.dashboard.sending import Content
from grass.files.operations import FileDigest, FileEntry


class Files(Protocol):
    """The share, with the user's rights. The CLI passes one; the dashboard does not know how to reach it."""

    def entries(self, path: str) -> Sequence[FileEntry]: ...

    def digests(self, path: str) -> Sequence[FileDigest]: ...

    def read(self, path: str) -> AbstractContextManager[Content]: ...
