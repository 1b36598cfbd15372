"""The end of the interpreter with executors in use. Used by ``executor``.

As with the executors of the standard library, calls that were submitted run, and the interpreter waits for them. After
Ctrl-C it does not wait.
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet

_log = logging.getLogger("grass")


class Open(Protocol):
    """An executor, for the end of the interpreter."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the calls."""

    def interrupt(self) -> None:
        """Stop the jobs, and say so."""

    def active_jobs(self) -> list[str]:
        """Return the ids of the jobs that have not ended."""


_open: WeakSet[Open] = WeakSet()
_watching = threading.Event()


def wait_at_exit(executor: Open) -> None:
    """Have the interpreter wait for this executor before it ends."""
    _open.add(executor)
    if not _watching.is_set():
        _watching.set()
        atexit.register(_say_what_goes_on)
        # Not a daemon: the interpreter waits for this thread, which waits for the main thread's end
        threading.Thread(target=_end, name="grass-executor-end").start()


def say(text: str) -> None:
    """Tell the user of a driver. Without a configuration of ``logging``, it is a line on stderr."""
    _log.warning("%s", text)


def how_to_stop(jobs: Iterable[str]) -> str:
    names = " ".join(jobs)
    return f"`grass job stop {names}` stops {'them' if ' ' in names else 'it'}"


def _end() -> None:
    threading.main_thread().join()
    failed = None if hasattr(sys, "ps1") else getattr(sys, "last_type", None)  # a prompt goes on after Ctrl-C
    interrupted = failed is not None and issubclass(failed, KeyboardInterrupt)
    for executor in list(_open):
        if interrupted:
            executor.interrupt()
        else:
            executor.shutdown()


def _say_what_goes_on() -> None:
    """A second Ctrl-C ends the interpreter although there are jobs."""
    for executor in list(_open):
        if jobs := executor.active_jobs():
            say(f"grass.Executor: {', '.join(jobs)}: still active; {how_to_stop(jobs)}")
