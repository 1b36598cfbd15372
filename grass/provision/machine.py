"""Resources of this machine: the defaults of a local node. Used by ``doctor``, ``layout`` and ``local``."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

import psutil

from grass.errors import InputError
from grass.manifest.settings import OfferedResources
from grass.model.resources import DEVICE, Resources

_GROUP = Path("/sys/fs/cgroup")


def offered(wish: OfferedResources) -> Resources:
    """Return the resources in the settings. Each missing resource defaults to all that the machine has."""
    return Resources(
        cpu=cpu() if wish.cpu is None else wish.cpu,
        memory=memory() if wish.memory is None else wish.memory,
        gpu=gpus() if wish.gpu is None else wish.gpu,
    )


def cpu() -> int:
    """Return the thousandths of a core that this process may use: its affinity, and the quota of its container."""
    cores = len(os.sched_getaffinity(0)) * 1000
    quota = re.fullmatch(r"(\d+) (\d+)\s*", _read(_GROUP / "cpu.max"))
    return min(cores, int(quota[1]) * 1000 // int(quota[2])) if quota else cores


def memory() -> int:
    total = int(psutil.virtual_memory().total)
    limit = _read(_GROUP / "memory.max").strip()
    return min(total, int(limit)) if limit.isdigit() else total


def gpus() -> int:
    """Return the thousandths of GPUs that this process can see; in a container, only the passed devices count."""
    return DEVICE * sum(re.fullmatch(r"nvidia\d+", path.name) is not None for path in Path("/dev").iterdir())


PROCESSES = 64
"""Processes and threads for a cluster: an idle one has 36; each call, command beside a task and task has its own."""


def spare_processes() -> int | None:
    """Return how many more processes and threads this user may start (``ulimit -u``); None: no limit."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit == resource.RLIM_INFINITY or os.getuid() == 0:
        return None
    return limit - sum(_threads(process) for process in psutil.process_iter())


def _threads(process: psutil.Process) -> int:
    try:
        return int(process.num_threads()) if process.uids().real == os.getuid() else 0
    except psutil.Error:
        return 0


def check_processes() -> None:
    """Check the limit of processes. Raises InputError, naming the limit.

    Without this check, daemons that cannot be forked would be missing without an error.
    """
    spare = spare_processes()
    if spare is not None and spare < PROCESSES:
        raise InputError(
            f"this user may start only {max(0, spare)} more processes and threads, and a cluster needs {PROCESSES}; "
            f"raise `ulimit -u` (now {resource.getrlimit(resource.RLIMIT_NPROC)[0]}), or end some"
        )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
