"""Reads of the share for the dashboard: what is in a folder, and the content of a file. Called by the CLI."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from grass.provision.files.access import Content, ShareAccess
from grass.provision.files.operations import ListFiles


@dataclass(frozen=True)
class SharedFiles:
    """The share, with the rights of its user. ``access``: finds it, and may raise NotFoundError."""

    access: Callable[[], ShareAccess]

    def entries(self, path: str) -> list[dict[str, Any]]:
        """Return ``{"name", "type", "size", "modified"}`` of each file and folder in ``path``."""
        return [
            {"name": each.name, "type": each.type.value, "size": each.size, "modified": each.modified}
            for each in self.access().ask(ListFiles(path))
        ]

    def read(self, path: str) -> AbstractContextManager[Content]:
        return self.access().read(path)
