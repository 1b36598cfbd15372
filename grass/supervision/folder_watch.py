"""Watch of a local cluster's folder: when it is removed, the cluster ends. Later, no command could find its processes.

Used by ``grass.provision`` and ``master.agent``.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from grass.config import ClusterConfig
from grass.supervision import processes
from grass.supervision.apart import run_apart
from grass.system import clock

log = logging.getLogger("grass.removed")

_PAUSE = 1.0
"""Seconds between two checks: one call of stat(2) each."""
_LOOKS = 3
"""Number of consecutive checks that must find no folder."""


def watch_folder(config: ClusterConfig) -> None:
    """Watch the cluster's folder; its removal ends the cluster. Only under supervisord. Returns at once."""
    if processes.is_supervisor(os.getppid(), config):
        threading.Thread(target=_wait, args=(config.path,), name="folder-watch", daemon=True).start()


def end_if_removed(path: Path) -> None:
    """End a cluster without folder. Called by a starting daemon without configuration at ``path``. Returns at once."""
    if is_gone(path):
        run_apart("removed_folder", path)


def _wait(path: Path) -> None:
    missed = 0
    while missed < _LOOKS:
        clock.sleep(_PAUSE)
        missed = missed + 1 if is_gone(path) else 0
    log.error("%s was removed; ending the cluster", path.parent)
    run_apart("removed_folder", path)


def is_gone(path: Path) -> bool:
    """Return whether the path is gone. An error of the file system does not prove that."""
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
