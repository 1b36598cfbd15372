"""How many cores and how much memory the programs of this machine, or of this container, may use.

Used by ``machine`` and ``embedded``, and by ``node.agent.this_machine``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from grass.lines import lines_of

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_AT_THE_ROOT = ("memory.max", "memory/memory.limit_in_bytes")
"""Files below ``_GROUPS`` with the limit of the container, of version 2 or 1."""


def usable_cpu(groups: Path = _GROUPS) -> int:
    """Return the thousandths of a core that this process may use: its affinity, and the quota of its container."""
    cores = 1000 * len(os.sched_getaffinity(0))
    with suppress(OSError):  # there is no quota
        if quota := re.fullmatch(r"(\d+) (\d+)\s*", (groups / "cpu.max").read_text()):
            return min(cores, 1000 * int(quota[1]) // int(quota[2]))
    return cores


def machine_memory(groups: Path = _GROUPS) -> int:
    """Return the bytes of the machine, or of the container that it is. Limits of this process' own group do not count:
    those of a daemon's unit are not for tasks."""
    return min([_physical(), *_limits([groups / name for name in _AT_THE_ROOT])])


def usable_memory(groups: Path = _GROUPS, own: Path = _OWN) -> int:
    """Return the bytes of the machine, or of the smallest limit of a control group that this process is in.

    ``groups``: where control groups are mounted, of version 1 or 2. ``own``: names those of this process.
    """
    return min([_physical(), *_limits(_files(groups, own))])


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _limits(files: Iterable[Path]) -> Iterator[int]:
    for file in files:
        with suppress(OSError, ValueError):  # there is none, or it says `max`
            yield int(file.read_text())


def _files(groups: Path, own: Path) -> Iterator[Path]:
    """Yield where limits may be. In a container, ``own`` may name groups that only the host sees; the root is there."""
    yield from (groups / name for name in _AT_THE_ROOT)
    with suppress(OSError):
        for line in lines_of(own.read_text()):
            _, kinds, path = line.split(":", 2)
            inner = PurePosixPath(path)
            for group in (inner, *inner.parents):
                if kinds == "":
                    yield groups / str(group).lstrip("/") / "memory.max"
                elif kinds == "memory":
                    yield groups / "memory" / str(group).lstrip("/") / "memory.limit_in_bytes"
