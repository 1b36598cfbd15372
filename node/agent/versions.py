"""Versions of what tasks depend on, for the hello: system, kernel, Python, the GPUs' driver, the container engine.

Used by ``this_machine``. The engine is asked in a thread of its own, because it may be slow or come up later.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Sequence

from grass.errors import GrassError
from grass.wire.gpu import GpuDevice
from node.runtime.registry import kind

AGAIN = 30.0
"""Seconds until an engine that did not answer is asked again."""
PATIENCE = 1.0
"""Seconds that the first answer may take; a later one is in the next hello."""


class Versions:
    """The versions that were found on this node.

    ``runtimes``: names of those that the node offers.
    """

    def __init__(self, runtimes: Sequence[str], gpus: Sequence[GpuDevice]) -> None:
        self._runtimes = runtimes
        self._known = local_versions(gpus)
        self._asked, self._stop = threading.Event(), threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="versions", daemon=True).start()
        self._asked.wait(PATIENCE)

    def stop(self) -> None:
        self._stop.set()

    def now(self) -> dict[str, str]:
        """Return name → version of all that is known."""
        return self._known

    def _run(self) -> None:
        missing = list(self._runtimes)
        while missing:
            missing = [name for name in missing if not self._ask(name)]
            self._asked.set()
            if self._stop.wait(AGAIN if missing else 0.0):
                return

    def _ask(self, name: str) -> bool:
        """Return whether the runtime has answered."""
        try:
            version = kind(name).version()
        except GrassError:
            return False
        if version:
            self._known = {**self._known, name: version}
        return True


def local_versions(gpus: Sequence[GpuDevice]) -> dict[str, str]:
    """Return the versions that can be read without asking another program."""
    found = {"system": _system(), "kernel": platform.release(), "python": platform.python_version()}
    driver = next((device.driver for device in gpus if device.driver), "")
    return {**found, "driver": driver} if driver else found


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
