"""End of a local cluster whose folder was removed while it ran. Later, no command could find or end its processes.

The master-agent calls ``watch_folder``. ``python -m grass.provision.removed_folder CLUSTER_JSON`` does the work in a
separate process, because it also ends the caller. The module must touch nothing while a cluster exists at that path.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

from grass import clock, own_program
from grass.config import ClusterConfig
from grass.model.mode import LOCAL
from grass.provision import processes, runtime_folder, stopping
from grass.provision.filelock import cluster_lock

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
    if _is_gone(path):
        _end_apart(path)


def _wait(path: Path) -> None:
    missed = 0
    while missed < _LOOKS:
        clock.sleep(_PAUSE)
        missed = missed + 1 if _is_gone(path) else 0
    log.error("%s was removed; ending the cluster", path.parent)
    _end_apart(path)


def _is_gone(path: Path) -> bool:
    """Return whether the path is gone. An error of the file system does not prove that."""
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _end_apart(path: Path) -> None:
    """Start the work through a shell, so that it is not a child of this process. There is no folder for a log."""
    command = own_program.command("grass.provision.removed_folder", str(path))
    nowhere = subprocess.DEVNULL
    words = ["/bin/sh", "-c", '"$@" &', "sh", *command]
    subprocess.run(
        words,
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
        env=own_program.environment(),
        cwd="/",
        start_new_session=True,
        check=True,
    )


def removed_cluster(path: Path) -> ClusterConfig:
    """Rebuild a configuration from its path alone: enough to find and end the processes."""
    return ClusterConfig(path.parent.name, LOCAL, str(path.parent), str(runtime_folder.choose(path.parent)))


def main(path: Path) -> None:
    base = path.parents[2]
    if base.is_dir():
        with cluster_lock(base, path.parent.name):
            _end(path)
    else:  # GRASS_HOME is gone, too: a lock would create it again
        _end(path)


def _end(path: Path) -> None:
    if _is_gone(path):
        config = removed_cluster(path)
        stopping.stop(config, forever=True)
        runtime_folder.remove(Path(config.runtime_dir))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
