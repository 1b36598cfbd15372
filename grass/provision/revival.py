"""Revival of a supervisord that died or hangs: daemons that it started detect this, and request a restart.

``python -m grass.provision.revival CLUSTER_JSON`` does the work in a separate process, because it replaces daemons,
including the one that asked. Tasks continue to run: the shepherd is kept.

The master-agent and the collector watch supervisord, the collector with a short delay; the two must do nothing else in
this module. A daemon asks at once if its supervisord (``SUPERVISOR_SERVER_URL``) was gone before the daemon's first
check. supervisord can therefore never die unnoticed, unless both daemons die with it; the next `grass create` detects
that case.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from pathlib import Path

from grass import clock
from grass.config import ClusterConfig
from grass.environment import supervised_by
from grass.provision import processes
from grass.provision.apart import run_apart
from grass.provision.filelock import cluster_lock

LOOK = 10.0
"""Seconds between two checks whether supervisord hangs."""
MISSES = 2
"""Consecutive unanswered checks, of 5 s each, after which supervisord counts as hanging."""
AGAIN = 60.0
"""Seconds until a revival is requested again. A successful revival ends the process that requested it."""
SECOND = 3.0
"""Seconds that the second watcher waits for the first."""
_LOCK_PATIENCE = 600.0

log = logging.getLogger("grass.revival")


def watch_supervisor(config: ClusterConfig, *, first: bool) -> None:
    """Watch the supervisord that started this process, and request its restart when it is gone. Returns at once.

    ``first``: this process is the first of the two watchers, and also checks whether supervisord hangs.
    """
    if supervised_by()[0] != f"unix://{config.socket('supervisor')}":
        return  # run by systemd, or by hand
    threading.Thread(target=_watch, args=(config, first), name="supervisord", daemon=True).start()


def _watch(config: ClusterConfig, first: bool) -> None:
    log.warning("%s; restarting it", wait_until_gone(config, first))
    if not first:
        clock.sleep(SECOND)
    while True:
        try:
            run_apart(config, "grass.provision.revival", "revival.log")
        except OSError as error:  # the disk is full, or the cluster's folder was removed
            log.error("cannot restart supervisord: %s; trying again in %g s", error, AGAIN)
        clock.sleep(AGAIN)


def wait_until_gone(config: ClusterConfig, first: bool) -> str:
    """Wait until supervisord is gone or hangs, and return the problem."""
    parent = os.getppid()
    try:
        descriptor = os.pidfd_open(parent)
    except ProcessLookupError:
        return "supervisord is gone"
    try:
        if os.getppid() != parent or not processes.is_supervisor(parent, config):
            return "supervisord was gone before this daemon looked"
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        misses = 0
        while not poll.poll(LOOK * 1000 if first else None):
            misses = 0 if _answers(config) else misses + 1
            if misses == MISSES:
                return "supervisord does not answer"
        return "supervisord is gone"
    finally:
        os.close(descriptor)


def _answers(config: ClusterConfig) -> bool:
    from grass.provision.supervision import Supervisor

    return Supervisor(config).answers()


def main(path: str) -> None:
    """Restart the cluster, unless it was stopped on purpose or is already started again."""
    from grass.provision import local

    try:
        config = ClusterConfig.load(path)
    except FileNotFoundError:
        return
    with cluster_lock(Path(config.home).parents[1], config.name, _LOCK_PATIENCE):
        if config.path.exists() and processes.of_cluster(config) and not _answers(config):
            local.start_again(config, lambda line: print(line, flush=True))  # noqa: T201 (into revival.log)


if __name__ == "__main__":
    main(sys.argv[1])
