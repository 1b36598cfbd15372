"""The faults of one machine. Each returns when its fault was over, on the steady clock; the cluster then heals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from grass.model.daemons import DAEMONS, REDIS, SHEPHERD, SUPERVISOR
from grass.supervision import processes
from tests.faults import local_clock, local_disks, local_logs, local_memory
from tests.faults.local_bed import LocalBed, local_bed
from tests.long.kill_matrix import patiently
from tests.support.waiting import wait_until

BACK_WITHIN = 60.0
"""How soon is too late is in the table."""
NAMES = (REDIS, *(daemon.name for daemon in DAEMONS))


GUARD = "guard"
"""The process above the shepherd, which supervisord knows under the name of the shepherd."""


def pid_of(name: str, bed: LocalBed) -> int | None:
    if name == SHEPHERD.name:
        return processes.shepherd_pid(bed.cluster.config)
    return bed.cluster.pid(SHEPHERD.name if name == GUARD else name)


def kill(name: str, bed: LocalBed) -> float:
    """Kill a daemon. Its successor runs within seconds, and an event says how the daemon ended."""
    before = pid_of(name, bed)
    assert before is not None
    since = time.monotonic()
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: pid_of(name, bed) not in (None, before), BACK_WITHIN, f"the next {name}")
    if name not in (SUPERVISOR, SHEPHERD.name):  # which notes the ends of the others; the guard starts the shepherd
        known = SHEPHERD.name if name == GUARD else name
        told = f"{known}: ended by signal SIGKILL (pid {before}); it is started again"
        ended = lambda: [each.message for each in bed.client.events(kind="daemon-ended")]  # noqa: E731
        wait_until(lambda: patiently(ended).count(told) == 1, 10, told, 0.1)
    return since


def kill_all(bed: LocalBed) -> float:
    before = {name: pid for name in NAMES if (pid := bed.cluster.pid(name)) is not None}
    since = time.monotonic()
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    for name, pid in before.items():
        wait_until(lambda: bed.cluster.pid(name) not in (None, pid), BACK_WITHIN, f"the next {name}")  # noqa: B023
    return since


def exhaust(bed: LocalBed) -> float:
    """One after the other."""
    for name in NAMES:
        local_memory.end_by_memory(name, partial(pid_of, name, bed), bed)
    return time.monotonic()


INJECTED: dict[str, Callable[[LocalBed], float]] = {
    **{f"{name} killed": partial(kill, name) for name in (*NAMES, GUARD, SUPERVISOR)},
    "all daemons killed at once": kill_all,
    "each daemon out of memory": exhaust,
    "disk full": local_disks.fill_disk,
    "inodes full": local_disks.fill_inodes,
    "clock + 1 h": partial(local_clock.shift, "+3600"),
    "clock - 1 h": partial(local_clock.shift, "-3600"),
    "clock 10 % fast": partial(local_clock.shift, "+0 x1.1"),
    "tail of redis' log cut": local_logs.cut_tail,
    "redis' log corrupt in the middle": local_logs.corrupt,
}
SMALL = {"disk full": "size=256M", "inodes full": "size=512M,nr_inodes=6000"}
"""Faults that need a file system of their own."""


@contextmanager
def bed_for(fault: str) -> Iterator[LocalBed]:
    with local_bed(SMALL.get(fault, "")) as bed:
        if fault.startswith("clock"):
            local_clock.prepare(bed)
        yield bed


def group(fault: str) -> str:
    """Return what faults have in common that can use the same cluster."""
    return fault if fault in SMALL else "clock" if fault.startswith("clock") else ""
