"""Reads of the share for the dashboard: what is in a folder, and the content of a file. Called by the CLI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from grass.files.access import Content, ShareAccess
from grass.files.operations import DigestFiles, FileDigest, FileEntry, ListFiles


@dataclass(frozen=True)
class SharedFiles:
    """The share, with the rights of its user. ``access``: finds it, and may raise NotFoundError."""

    access: Callable[[], ShareAccess]

    def entries(self, path: str) -> Sequence[FileEntry]:
        """Return the files and folders in ``path``."""
        return self.access().ask(ListFiles(path))

    def digests(self, path: str) -> Sequence[FileDigest]:
        """Return the files below a folder with their digests."""
        return self.access().ask(DigestFiles(path))

    def read(self, path: str) -> AbstractContextManager[Content]:
        return self.access().read(path)
