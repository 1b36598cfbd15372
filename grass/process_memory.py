"""The memory of this process: what the garbage collector scans, and the return of freed memory.

Called by daemons at their start and after a large piece of work. Decides nothing.
"""

from __future__ import annotations

import ctypes
import gc


def keep_imported() -> None:
    """Call it when all is imported: the garbage collector does not scan what exists now, which would delay answers.

    ``master`` and ``node`` set how rarely it scans the rest.
    """
    gc.freeze()


def give_back() -> None:
    """glibc keeps what was freed between pieces that live on. Other libraries of C have no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
