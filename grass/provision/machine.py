"""What this machine can offer: the defaults of a local node's resources."""

from __future__ import annotations

import os
import re
from pathlib import Path

import psutil

from grass.manifest.settings import OfferedResources
from grass.model.resources import DEVICE, Resources

_GROUP = Path("/sys/fs/cgroup")


def offered(wish: OfferedResources) -> Resources:
    """What the settings say, and all that there is where they say nothing."""
    return Resources(
        cpu=cpu() if wish.cpu is None else wish.cpu,
        memory=memory() if wish.memory is None else wish.memory,
        gpu=gpus() if wish.gpu is None else wish.gpu,
    )


def cpu() -> int:
    """Thousandths of a core that this process may use: its affinity, and the quota of its container."""
    cores = len(os.sched_getaffinity(0)) * 1000
    quota = re.fullmatch(r"(\d+) (\d+)\s*", _read(_GROUP / "cpu.max"))
    return min(cores, int(quota[1]) * 1000 // int(quota[2])) if quota else cores


def memory() -> int:
    total = int(psutil.virtual_memory().total)
    limit = _read(_GROUP / "memory.max").strip()
    return min(total, int(limit)) if limit.isdigit() else total


def gpus() -> int:
    """Thousandths of the devices that this process can see; in a container those that were handed in."""
    return DEVICE * sum(re.fullmatch(r"nvidia\d+", path.name) is not None for path in Path("/dev").iterdir())


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
