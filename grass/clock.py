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
    """The kernel's random id of this boot; ``steady`` values of different boots cannot be compared."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
