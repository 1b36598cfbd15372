"""The one module that reads a clock. Everything else takes times as arguments.

There are two clocks, which are never mixed. ``wall`` is for people and logs. ``steady`` is for decisions (timeouts,
backoff, silence). It counts since the machine booted, so it is the same in every process of this boot, also after a
restart of a daemon. ``boot_id`` identifies the boot. Used by all packages.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path


def wall() -> float:
    """Return seconds since the Unix epoch. For display only: it may jump."""
    return time.time()


def steady() -> float:
    """Return seconds since boot, including suspend (CLOCK_BOOTTIME). Never jumps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def thread_cpu() -> float:
    """Return the seconds of CPU time that the calling thread has used."""
    return time.thread_time()


def sleep(seconds: float) -> None:
    """Do nothing for so many seconds. Prefer to wait for an event."""
    time.sleep(seconds)


@cache
def boot_id() -> str:
    """Return the id of this boot; ``steady`` values of different boots cannot be compared.

    It consists of the kernel's random id and the start time of the first process. A container that acts as a machine
    boots without its kernel, so the kernel's id alone does not suffice.
    """
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        since = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:  # hidepid
        since = ""
    return f"{kernel}-{since}"
