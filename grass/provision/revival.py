"""When supervisord itself is killed: the master-agent sees it and has it started again. Nobody watches by polling.

``python -m grass.provision.revival CLUSTER_JSON`` does the work, a process of its own, because the daemons that it
replaces include the one that asked. Tasks run on meanwhile: the shepherd is kept. Both killed at one moment is more
than this can see; the next `grass create` finds that.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from grass.config import ClusterConfig
from grass.provision import local, processes
from grass.provision.filelock import cluster_lock
from grass.provision.shutdown import run_apart
from grass.provision.supervision import Supervisor

log = logging.getLogger("grass.revival")


def watch_supervisor(config: ClusterConfig) -> None:
    """If this process is a child of the cluster's supervisord, its death starts a revival. Returns at once."""
    parent = os.getppid()
    if not processes.is_supervisor(parent, config):
        return
    descriptor = os.pidfd_open(parent)
    if os.getppid() != parent:  # it died in between
        os.close(descriptor)
        request_revival(config)
        return
    threading.Thread(target=_wait, args=(descriptor, lambda: request_revival(config)), daemon=True).start()


def request_revival(config: ClusterConfig) -> None:
    """Returns at once."""
    log.warning("supervisord is gone; having it started again")
    run_apart(config, "grass.provision.revival", "revival.log")


def _wait(descriptor: int, then: Callable[[], None]) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll()
    os.close(descriptor)
    then()


def main(path: str) -> None:
    """Does nothing when the cluster was ended on purpose, or somebody else has started it again."""
    try:
        config = ClusterConfig.load(path)
    except FileNotFoundError:
        return
    with cluster_lock(Path(config.home).parents[1], config.name):
        if config.path.exists() and processes.of_cluster(config) and not Supervisor(config).answers():
            local.start_again(config, lambda line: print(line, flush=True))  # noqa: T201 (into revival.log)


if __name__ == "__main__":
    main(sys.argv[1])
