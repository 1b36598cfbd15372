"""Watcher that kills a redis that accepts connections but does not answer; its supervisor restarts redis.

The watcher is a thread of the master-agent, the same under supervisord and systemd. Redis needs it because redis gives
no sign of life by itself, unlike the other daemons (``grass.system.systemd``). Only the cluster's own redis on this
machine is watched. Used by ``master.agent.__main__``.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import struct
import threading

from grass.config import ClusterConfig
from grass.system import clock

LOOK = 5.0
"""Seconds between two checks."""
PATIENCE = 5.0
"""Seconds that an answer may take."""
MISSES = 4
"""Consecutive checks without an answer after which redis is killed: after 40 s at most.

Checks are counted, not seconds: after a sleep of the machine, or a time without CPU for the watcher, redis is not
considered to hang.
"""
_CREDENTIALS = struct.Struct("3i")

log = logging.getLogger("grass.redis-watch")


def watch_redis(config: ClusterConfig) -> None:
    """Start the watcher, and return at once."""
    if config.redis.embedded and config.redis.socket is not None:
        threading.Thread(target=_watch, args=(config.redis.socket,), name="redis-watch", daemon=True).start()


def _watch(path: str) -> None:
    pid, misses = 0, 0
    while True:
        clock.sleep(LOOK)
        found, answered = look(path)
        misses = 0 if answered or (found and found != pid and pid) else misses + 1
        pid = found or pid
        if misses >= MISSES and pid:
            log.error("redis (pid %d) has not answered %d times in a row; killing it", pid, misses)
            _kill(pid)
            pid, misses = 0, 0


def look(path: str) -> tuple[int, bool]:
    """Return the pid of the listener at ``path`` (0: no connection), and whether it sent an answer or an error.

    A redis that is down counts as answering: its supervisor detects that by itself.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as line:
        line.settimeout(PATIENCE)
        try:
            line.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return 0, True
        except OSError:
            return 0, False
        pid = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0]
        try:
            line.sendall(b"PING\r\n")
            line.recv(64)  # also returns at the end of the connection: redis ended, and did not hang
        except ConnectionError:
            return pid, True
        except OSError:
            return pid, False
        return pid, True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError as error:
        log.error("cannot kill redis (pid %d): %s", pid, error)
