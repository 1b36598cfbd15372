"""The memory of this process: when garbage is looked for, and what was freed given back.

Called by daemons at their start and after a large piece of work. Decides nothing.
"""

from __future__ import annotations

import ctypes
import gc


def collect_rarely() -> None:
    """Call it when all is imported: that lives for ever, and to look through it again and again delays answers."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def give_back() -> None:
    """glibc keeps what was freed between pieces that live on. Other libraries of C have no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
