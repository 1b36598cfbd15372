"""Watch of a supervisord by daemons that it started: when it died or hangs, they request its restart (``apart``).

The master-agent and the collector watch supervisord, the collector with a short delay; the two must do nothing else in
this module. A daemon asks at once if its supervisord (``SUPERVISOR_SERVER_URL``) was gone before the daemon's first
check. supervisord can therefore never die unnoticed, unless both daemons die with it; the next `grass create` detects
that case. Used by ``master.agent`` and ``master.collector``.
"""

from __future__ import annotations

import logging
import os
import select
import threading

from grass.config import ClusterConfig
from grass.supervision import processes
from grass.supervision.apart import request_revival
from grass.supervision.supervisor import Supervisor
from grass.system import clock
from grass.system.environment import supervised_by

LOOK = 10.0
"""Seconds between two checks whether supervisord hangs."""
MISSES = 2
"""Consecutive unanswered checks, of 5 s each, after which supervisord counts as hanging."""
AGAIN = 60.0
"""Seconds until a revival is requested again. A successful revival ends the process that requested it."""
SECOND = 3.0
"""Seconds that the second watcher waits for the first."""

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
            request_revival(config)
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
            misses = 0 if Supervisor(config).answers() else misses + 1
            if misses == MISSES:
                return "supervisord does not answer"
        return "supervisord is gone"
    finally:
        os.close(descriptor)
