"""Functions and arguments of calls that are too large for a task's variable: files in the share. Used by ``executor``.

Each is a file of its own, named by the SHA-256 of its content, so that what several calls have is sent once. The task
checks that digest before it unpickles the file: others may write into the share.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grass.errors import GrassError

if TYPE_CHECKING:
    from grass.api.client import Client


class CallFiles:
    """The files of one executor. ``folder``: where they are in the share."""

    def __init__(self, client: Client, folder: str) -> None:
        self.folder = folder
        self._client = client
        self._sent: set[str] = set()
        self._lock = threading.Lock()

    def send(self, contents: Mapping[str, bytes]) -> None:
        """Send files by their digests, if they are not there yet. Raises as ``Client.push``."""
        with self._lock, tempfile.TemporaryDirectory(prefix="grass-calls-") as here:
            new = contents.keys() - self._sent
            for digest in new:
                (Path(here) / digest).write_bytes(contents[digest])
            if new:
                self._client.push(here, self.folder)
                self._sent |= new

    def remove(self) -> None:
        """Remove all of them. What cannot be removed stays."""
        from grass.files.access import access_in
        from grass.files.operations import RemoveFiles

        with self._lock:
            if self._sent:
                with suppress(GrassError):
                    access_in(self._client.folder).ask(RemoveFiles(self.folder, True))
                self._sent.clear()
