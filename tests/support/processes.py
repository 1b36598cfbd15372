"""The processes of this machine, for tests that look for processes they started."""

from __future__ import annotations

import psutil


def running(*argv: str) -> list[psutil.Process]:
    """Return the running processes whose command line is ``argv``.

    A process that ends during the search counts as ended.
    """
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["cmdline"] == list(argv) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def ended(process: psutil.Process) -> bool:
    """Return whether nothing of the process is left, except perhaps its exit status."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def alive(pid: int) -> bool:
    """Return whether the process runs. A zombie does not: process 1 of a container may take its time to reap it."""
    try:
        return bool(psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.NoSuchProcess:
        return False
