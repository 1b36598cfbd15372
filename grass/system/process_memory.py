"""The memory of this process: what the garbage collector scans, and the return of freed memory.

Called by daemons at their start and after a large piece of work. Decides nothing.
"""

from __future__ import annotations

import ctypes
import gc


def keep_imported() -> None:
    """Exclude all that exists now from garbage collection, whose scans delay answers. To be called after the imports.

    ``master`` and ``node`` set how rarely the rest is scanned.
    """
    gc.freeze()


def give_back() -> None:
    """Return freed memory to the system. glibc keeps it otherwise; other libraries of C have no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
