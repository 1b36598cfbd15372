"""The processes of this machine, for tests that look for those they caused."""

from __future__ import annotations

import psutil


def running(*argv: str) -> list[psutil.Process]:
    """Those whose command line is ``argv`` and that have not ended. One that ends while it is looked at has ended."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["cmdline"] == list(argv) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def ended(process: psutil.Process) -> bool:
    """Nothing of it is left but, perhaps, its exit status."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
