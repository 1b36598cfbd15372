"""The client of the cluster, made anew when the keys in the cluster's folder change. Used by ``app`` and ``mirror``.

They change when the cluster was recreated under its name, and when the user logged in again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from grass.api.client import Client
from grass.errors import GrassError

_MASTER = "master.pub.json"
_FILES = ("profile.json", "user.pem", _MASTER)
"""Files of ``client/`` from which a client is made."""


class Connection:
    """``connect`` makes a client from what the folder has now."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._client = connect()
        self._seen = _stamps(self._client.folder)
        self._master = _content(self._client.folder)

    def client(self) -> Client:
        """Return the client, with the keys of now if they can be read. Looks at three files, and asks nothing."""
        with self._lock:
            self._renew()
            return self._client

    def recreated(self) -> bool:
        """Return whether the folder has the key of another master than before, once for each change of it."""
        with self._lock:
            self._renew()
            master = _content(self._client.folder)
            if master is None or master == self._master:
                return False
            self._master = master
            return True

    def close(self) -> None:
        self._client.close()

    def _renew(self) -> None:
        seen = _stamps(self._client.folder)
        if seen == self._seen or None in seen:  # a folder that is being written has no cluster yet
            return
        with suppress(GrassError):  # the files do not fit together yet
            client = self._connect()
            self._client.close()
            self._client, self._seen = client, seen


def _stamps(folder: Path) -> tuple[tuple[int, int] | None, ...]:
    return tuple(_stamp(folder / "client" / name) for name in _FILES)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _content(folder: Path) -> bytes | None:
    try:
        return (folder / "client" / _MASTER).read_bytes()
    except OSError:
        return None
