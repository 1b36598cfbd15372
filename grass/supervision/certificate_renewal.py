"""Renews this host's certificate from time to time. Run by the node-agent, and on the master by the master-agent.

In a process of its own: it needs packages that the agents do not keep in memory. Servers and clients read new files by
themselves; what is connected stays connected.
"""

from __future__ import annotations

import logging
import subprocess
import threading

from grass.config import ClusterConfig
from grass.system import own_program

AGAIN = 900.0
"""Seconds between two looks. A machine that slept longer than its certificate was valid waits for this once."""
RETRY = 60.0
"""Seconds until a failed renewal is tried again."""
_LONGEST = 120.0

log = logging.getLogger(__name__)


def start_renewal(config: ClusterConfig) -> None:
    """Look now, and again every quarter of an hour, in a thread. A host without certificates needs none."""
    if config.tls:
        threading.Thread(target=_run, args=(config,), name="certificate", daemon=True).start()


def _run(config: ClusterConfig) -> None:
    waiting, said = threading.Event(), ""
    while True:
        why = _why_not(config)
        if why and why != said:
            log.error("the certificate of this host is not renewed; trying again: %s", why)
        said = why
        waiting.wait(RETRY if why else AGAIN)


def _why_not(config: ClusterConfig) -> str:
    """Renew if it is due. Return why that failed."""
    command = own_program.command("grass.provision.host_certificate", "renew", str(config.path))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"code {done.returncode}"
