"""Ports of this machine that lead to web pages of tasks, as `grass job open` makes them. Used by ``app``.

Each stays open until its task ends, or until the dashboard ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from grass.api.client import Client
from grass.api.forwarding import Forwarding
from grass.errors import GrassError, InputError

_MOST = 32
"""Pages that are open at once. The oldest is closed for a further one."""
_ENDING = 5.0
"""Most seconds until a closed page no longer uses the client."""


@dataclass(frozen=True)
class _Open:
    forwarding: Forwarding
    thread: threading.Thread


class WebPages:
    """The open pages. Safe for several threads."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client
        self._open: dict[tuple[str, str], _Open] = {}
        self._lock = threading.Lock()

    def open(self, job: str, component: str) -> Forwarding:
        """Return the forward to the page of a component; open it first if needed.

        Raises ConflictError, NotFoundError, InputError.
        """
        with self._lock:
            found = self._open.pop((job, component), None)
            if found is None or not found.thread.is_alive():
                found = self._made(job, component)
            self._open[job, component] = found  # as the newest
            return found.forwarding

    def _made(self, job: str, component: str) -> _Open:
        while len(self._open) >= _MOST:
            self._open.pop(next(iter(self._open))).forwarding.close()
        try:
            forwarding = self._client().forward(job, component)
        except OSError as error:
            raise InputError(f"no port of this machine can be opened: {error.strerror or error}") from error
        thread = threading.Thread(target=_serve, args=(forwarding,), name="web-page", daemon=True)
        thread.start()
        return _Open(forwarding, thread)

    def close(self) -> None:
        with self._lock:
            left = [*self._open.values()]
            self._open.clear()
        for each in left:
            each.forwarding.close()
        for each in left:
            each.thread.join(_ENDING)  # it uses the connections of the client


def _serve(forwarding: Forwarding) -> None:
    with suppress(GrassError):  # the task or the cluster is gone; the next `open` says so
        forwarding.serve()
