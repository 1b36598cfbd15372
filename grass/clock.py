"""The one module that reads a clock. Everything else takes times as arguments.

Two clocks, never mixed: ``wall`` is shown to people and stored in logs; ``steady`` decides (timeouts,
backoff, silence). ``steady`` counts since the machine booted, so it means the same in every process of this
boot and survives a restart of a daemon; ``boot_id`` says which boot that was.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path


def wall() -> float:
    """Seconds since the Unix epoch. For display only: it may jump."""
    return time.time()


def steady() -> float:
    """Seconds since boot, suspend included (CLOCK_BOOTTIME). Never jumps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


@cache
def boot_id() -> str:
    """Of this boot; ``steady`` values of different boots cannot be compared.

    The kernel's random id, and when the first process started: a machine that is a container boots without its kernel,
    and what it shows as its own id is not seen by a service in a sandbox.
    """
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        since = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:  # hidepid
        since = ""
    return f"{kernel}-{since}"
