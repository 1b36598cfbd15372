"""Freed memory of this process, given back to the system. For daemons after a large piece of work; decides nothing."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """glibc keeps what was freed between pieces that live on. Other libraries of C have no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
