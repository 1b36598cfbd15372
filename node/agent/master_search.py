"""Looks for the master once redis has taken nothing for a while: it may be on another machine. Used by ``__main__``.

The addresses are asked in a process of its own: that needs packages which this one does not keep in memory. What it
hears is proven, and proven again by root's part of this (``grass.provision.on_premises.follow_on_host``).
"""

from __future__ import annotations

import logging
import subprocess
import threading
from pathlib import Path

from grass.node_config import NodeHome
from grass.system import clock, own_program
from node.agent.redis_threads import HEARD

QUIET = 10.0
"""Seconds of silence until the first question."""
_LONGEST_PAUSE = 60.0
_TIMEOUT = 60.0

log = logging.getLogger(__name__)


def pause(silent: float) -> float:
    """Return the seconds until the next look. A master that is away for long is asked for less often."""
    return min(max(QUIET, silent / 10), _LONGEST_PAUSE)


def start_search(config: NodeHome) -> None:
    """Look in a thread. The master of a cluster of one machine does not move."""
    if config.tls and config.redis.host is not None and config.node.kubernetes is None:
        threading.Thread(target=_run, args=(config,), name="master-search", daemon=True).start()


def _run(config: NodeHome) -> None:
    waiting, began, silent, said = threading.Event(), clock.steady(), 0.0, ""
    while not waiting.wait(pause(silent)):
        silent = clock.steady() - _heard(Path(config.runtime_dir) / HEARD, began)
        why = _why_not(config) if silent >= QUIET else ""
        if why and why != said:
            log.warning("nobody can be asked where the master is; trying again: %s", why)
        said = why


def _heard(path: Path, began: float) -> float:
    """Return when redis took a report last, or since when this agent waits for that."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return began


def _why_not(config: NodeHome) -> str:
    """Ask. Return why that failed."""
    command = own_program.command("grass.provision.on_premises.hearing", str(config.path))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"code {done.returncode}"
