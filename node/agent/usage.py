"""What the machine has and how busy it is, for `hello` and heartbeats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil

from grass import __version__, clock
from grass.config import ClusterConfig
from grass.model.resources import DEVICE


def usage(folder: Path) -> dict[str, Any]:
    """``cpu`` in percent of all cores since the last call, ``memory`` used and ``disk_free`` in bytes."""
    disk = os.statvfs(folder)
    return {
        "cpu": psutil.cpu_percent(None),
        "memory": psutil.virtual_memory().used,
        "load": os.getloadavg()[0],
        "disk_free": disk.f_bavail * disk.f_frsize,
    }


def hello(config: ClusterConfig, gpus: list[dict[str, Any]], attempts: list[str]) -> dict[str, Any]:
    """The body of the report of that name. What the settings leave at 0 is what the machine has."""
    node = config.node
    resources = {
        "cpu": node.cpu or 1000 * (os.cpu_count() or 1),
        "memory": node.memory or psutil.virtual_memory().total,
        "gpu": node.gpu or DEVICE * len(gpus),
    }
    return {
        "boot_id": clock.boot_id(),
        "version": __version__,
        "address": node.address,
        "api_port": node.api_port,
        "resources": resources,
        "gpus": gpus,
        "attempts": attempts,
    }
