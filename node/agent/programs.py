"""Which programs of frameworks processes of this node find on their PATH, for the hello and heartbeats.

Looked for now and then in a thread of its own: somebody may install one, and a folder of the PATH may be on a file
server that does not answer. Used by ``this_machine``.
"""

from __future__ import annotations

import os
import shutil
import threading

from grass.frameworks.programs import KNOWN

EVERY = 10.0
"""Seconds between looks."""
PATIENCE = 1.0
"""Seconds that the first look may take; after that, the node says later what it has."""


class Programs:
    """Looks for programs now and then, in a thread.

    ``path``: the PATH of processes. ``every``: seconds between looks.
    """

    def __init__(self, path: str | None, every: float = EVERY) -> None:
        self._path = path or os.defpath
        self._every = every
        self._now: tuple[str, ...] | None = None
        self._looked, self._stop = threading.Event(), threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="programs", daemon=True).start()
        self._looked.wait(PATIENCE)

    def stop(self) -> None:
        self._stop.set()

    def now(self) -> tuple[str, ...] | None:
        """Return their names. None: not known yet."""
        return self._now

    def _run(self) -> None:
        self._now = on_path(self._path)
        self._looked.set()
        while not self._stop.wait(self._every):
            self._now = on_path(self._path)


def on_path(path: str) -> tuple[str, ...]:
    return tuple(name for name in KNOWN if shutil.which(name, path=path))
