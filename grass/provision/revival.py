"""When supervisord itself dies or hangs: daemons that it started see it, and have it started again.

``python -m grass.provision.revival CLUSTER_JSON`` does the work, a process of its own, because the daemons that it
replaces include the one that asked. Tasks run on meanwhile: the shepherd is kept.

The master-agent and the collector watch, the second a little later; they must do nothing else here. A daemon that was
started by a supervisord that is gone before it could look (``SUPERVISOR_SERVER_URL`` says who started it) asks at once.
So no moment is left in which supervisord can die unseen, unless both daemons die with it: the next `grass create` finds
that.
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
"""Seconds between two questions to supervisord, which may hang."""
MISSES = 2
"""Questions in a row that it leaves unanswered, 5 s each, before it counts as hanging."""
AGAIN = 60.0
"""Seconds after which a revival is asked for again. One that succeeds ends the process that asked."""
SECOND = 3.0
"""Seconds by which the second watcher waits for the first."""
_LOCK_PATIENCE = 600.0

log = logging.getLogger("grass.revival")


def watch_supervisor(config: ClusterConfig, *, first: bool) -> None:
    """If supervisord started this process, have it started again when it is gone. Returns at once.

    ``first``: of the watchers; it also asks supervisord whether it hangs.
    """
    if supervised_by()[0] != f"unix://{config.socket('supervisor')}":
        return  # run by systemd, or by hand
    threading.Thread(target=_watch, args=(config, first), name="supervisord", daemon=True).start()


def _watch(config: ClusterConfig, first: bool) -> None:
    log.warning("%s; restarting it", _until_gone(config, first))
    if not first:
        clock.sleep(SECOND)
    while True:
        try:
            run_apart(config, "grass.provision.revival", "revival.log")
        except OSError as error:  # the disk is full, or the cluster's folder was removed
            log.error("cannot restart supervisord: %s; trying again in %g s", error, AGAIN)
        clock.sleep(AGAIN)


def _until_gone(config: ClusterConfig, first: bool) -> str:
    """Returns what is wrong with supervisord."""
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
    """Does nothing when the cluster was ended on purpose, or somebody else has started it again."""
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
