"""Reads the umask and the soft limits of this process. Used by ``grass.api.client`` and ``node.agent``."""

from __future__ import annotations

import resource
from pathlib import Path

from grass.lines import lines_of
from grass.model.process_settings import UMASK, UNLIMITED

_STATUS = Path("/proc/self/status")
_LIMITS = {
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "file": resource.RLIMIT_FSIZE,
    "memory": resource.RLIMIT_AS,
    "memory_lock": resource.RLIMIT_MEMLOCK,
    "open_files": resource.RLIMIT_NOFILE,
    "stack": resource.RLIMIT_STACK,
}


def present() -> dict[str, int]:
    """Return the settings. The umask is read from /proc: the system call to read it changes it for all threads."""
    umask = [line.split()[1] for line in lines_of(_STATUS.read_bytes()) if line.startswith(b"Umask:")]
    limits = {name: resource.getrlimit(number)[0] for name, number in _LIMITS.items()}
    found = {name: UNLIMITED if value == resource.RLIM_INFINITY else value for name, value in limits.items()}
    return {**found, **({UMASK: int(umask[0], 8)} if umask else {})}
