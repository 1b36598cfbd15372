"""Files of a FUSE share that were closed, and could not be sent: rclone tries once, and keeps them in its cache.

Whoever closed such a file heard of no failure. rclone tries again when somebody opens and closes it. Its own repeated
tries (``--vfs-write-back`` above 0) are no way: with them, rclone 1.60 fails internally when two nodes append to a
file. Used by ``share_mount``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

NOTE = b"vfs cache: item close failed"
"""rclone's message about a file that could not be sent."""


class UnsentFiles:
    """Sends the files that rclone could not send.

    ``cache``: rclone's folder. ``served``: what it mounts, as the server names it. ``folder``: where that is mounted.
    """

    def __init__(self, cache: Path, served: str, folder: Path) -> None:
        self._records = cache / "vfsMeta" / "grass" / served.lstrip("/")
        self._folder = folder
        self._wanted = threading.Event()
        self._wanted.set()  # an earlier run may have left some
        self._sending: threading.Thread | None = None

    def note(self, line: bytes) -> None:
        """Take a message of rclone."""
        if NOTE in line:
            self._wanted.set()

    def send(self) -> None:
        """Begin to send them, if there may be some, in a thread: the mount may not answer.

        rclone tells of each new failure, so the next call tries again."""
        if self._wanted.is_set() and (self._sending is None or not self._sending.is_alive()):
            self._wanted.clear()
            self._sending = threading.Thread(target=self._send, daemon=True)
            self._sending.start()

    def _send(self) -> None:
        for path in self._unsent():
            with suppress(OSError), (self._folder / path).open("r+b") as file:
                file.read(1)  # rclone opens a file when it is used

    def _unsent(self) -> Iterator[Path]:
        for record in self._records.rglob("*"):
            with suppress(OSError, ValueError):
                if record.is_file() and json.loads(record.read_bytes())["Dirty"]:
                    yield record.relative_to(self._records)
