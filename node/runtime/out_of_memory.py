"""The reason of a task that the kernel ended because it used too much memory. Pure.

Used by ``node.runtime.docker.outcome`` and ``node.runtime.isolation.tasks``.
"""

from __future__ import annotations

import signal

from grass.model.amounts import show_memory
from grass.model.reasons import Reason, ReasonCode


def out_of_memory(limit: int, code: int | None = None, *, seen: bool = True) -> Reason:
    """``limit``: in bytes; 0: none. ``code``: with which its first process ended; None: that was killed itself.
    ``seen``: the kernel reported it; otherwise it is a guess."""
    what = f"more memory than its limit of {show_memory(limit)}" if limit else "too much memory"
    if code is not None:
        message = f"ended with exit code {code}, after the kernel killed a process of it that used {what}"
        return Reason(ReasonCode.EXIT_CODE, message, {"code": code, "limit": limit})
    message = f"killed by the kernel: it used {what}" if seen else f"killed, but not by Grass; it probably used {what}"
    return Reason(ReasonCode.SIGNAL, message, {"signal": signal.SIGKILL.value, "limit": limit})
