"""The kernel ends a daemon because its control group has no memory left."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from grass.errors import GrassError
from tests.faults.local_bed import LocalBed
from tests.support.waiting import wait_until

GROUPS = Path("/sys/fs/cgroup/memory")
"""Of control groups of version 1."""
DIES_WITHIN = 60.0
WORKERS = "-api-server"
"""Daemons whose work is done by their children. Those of a shepherd are tasks."""


def end_by_memory(name: str, find: Callable[[], int | None], bed: LocalBed) -> None:
    """Move the daemon into a group whose limit is already reached: what it allocates next is its end, or a worker's.

    ``find``: the pid of the daemon.
    """
    pid = find()
    assert pid is not None
    group = GROUPS / f"grass-faults-{pid}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text("4096")
        workers = psutil.Process(pid).children() if name.endswith(WORKERS) else []
        for process in (pid, *(each.pid for each in workers)):
            (group / "cgroup.procs").write_text(str(process))
        wait_until(lambda: kills(group) > 0 or feed(bed), DIES_WITHIN, f"the end of {name} by the kernel", 0.05)
    finally:
        wait_until(lambda: is_empty(group), 10, "an empty control group")
        group.rmdir()


def feed(bed: LocalBed) -> bool:
    """Give the daemons something to do, so that they allocate. Return False."""
    with suppress(GrassError):  # that of the API may be the one that ends
        bed.client.start({"name": f"feeds-{time.monotonic_ns()}", "components": {"t": bed.component("echo fed")}})
    return False


def kills(group: Path) -> int:
    words = (group / "memory.oom_control").read_text().split()
    return int(words[words.index("oom_kill") + 1])


def is_empty(group: Path) -> bool:
    """Move whoever is left out of the group: a process that the limit did not hit, and what it started."""
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):  # it has ended
            (GROUPS / "cgroup.procs").write_text(pid)
    return not (group / "cgroup.procs").read_text()
