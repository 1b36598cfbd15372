"""Python stacks that a process writes itself, where py-spy may not look into it. Used by ``collect``.

A program that calls ``grass.report`` has registered ``faulthandler`` for a signal, with a file in memory. The node
sends the signal only to a process that handles it and has this file.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress

from grass.lines import lines_of
from grass.system import clock
from grass.task.own_figures import STACKS_FILE, STACKS_SIGNAL
from grass.wire.stacks import ThreadStack
from node.runtime import proc

SECONDS = 0.5
"""Time in which a process answers. One that is stopped or waits in the kernel does not."""
_GLANCE = 0.01
_FRAME = re.compile(r'\s*File "(.*)", line (\d+) in (.*)')
_MOST_READ = 1 << 20
_one_at_a_time = threading.Lock()
"""Processes that were forked from one another have one file."""


def threads(pid: int) -> tuple[ThreadStack, ...]:
    """Return the threads of a process. Empty: it has not registered for this, or does not answer."""
    if not _handles(pid):
        return ()
    with _one_at_a_time, suppress(OSError):
        file = _file(pid)
        if file is not None:
            descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.ftruncate(descriptor, 0)
                os.kill(pid, STACKS_SIGNAL)
                return tuple(_parsed(_answer(descriptor)))
            finally:
                os.close(descriptor)
    return ()


def _handles(pid: int) -> bool:
    for line in lines_of(proc.read(f"/proc/{pid}/status")):
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (STACKS_SIGNAL - 1) & 1)
    return False


def _file(pid: int) -> str | None:
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):  # noqa: PTH208
        with suppress(OSError):
            if os.readlink(f"{folder}/{name}").startswith(f"/memfd:{STACKS_FILE}"):  # noqa: PTH115
                return f"{folder}/{name}"
    return None


def _answer(descriptor: int) -> str:
    """Return what the process wrote, once it writes no more."""
    until, size = clock.steady() + SECONDS, -1
    while clock.steady() < until:
        now = os.fstat(descriptor).st_size
        if now and now == size:
            break
        size = now
        clock.sleep(_GLANCE)
    return os.pread(descriptor, _MOST_READ, 0).decode(errors="replace")


def _parsed(text: str) -> Iterator[ThreadStack]:
    """Yield the threads; the first one, which takes signals, is marked as the current one."""
    found: list[tuple[bool, list[str]]] = []
    for line in lines_of(text):
        if line.endswith("(most recent call first):"):
            found.append((line.startswith("Current thread"), []))
        elif found and (frame := _FRAME.fullmatch(line)):
            found[-1][1].append(f"{frame[3]} ({frame[1]}:{frame[2]})")
    for current, frames in sorted(found, key=lambda each: not each[0]):
        yield ThreadStack(tuple(frames), "", current)
