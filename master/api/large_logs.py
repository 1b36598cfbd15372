"""Names the jobs whose logs take most of the store's disk, to somebody who meets it full. Used by ``app`` and ``call``.

Measuring is bounded, and its result is kept for a while: whoever is refused may try again at once.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from grass.config import ClusterConfig
from grass.model.amounts import show_memory
from grass.model.names import is_job_id
from grass.system.clock import steady

NAMED = 3
LEAST = 1 << 20
"""Bytes of logs that are worth naming."""
_KEPT_SECONDS = 10.0
_MOST_FILES = 50_000
"""Files to look at. Of a cluster with more, some are left out."""


class LargeLogs:
    """The sizes of the logs on the store's disk: those that were collected, and those of this machine's tasks."""

    def __init__(self, config: ClusterConfig) -> None:
        self._disk = Path(config.home)
        self._folders = (config.logs_dir, config.node_dir / "attempts")
        self._lock = threading.Lock()
        self._measured: list[tuple[str, int]] = []
        self._until = 0.0

    def jobs(self) -> list[tuple[str, int]]:
        """Return job ids and the bytes of their logs, the largest first."""
        with self._lock:
            if steady() >= self._until:
                sizes: Counter[str] = Counter()
                for job_id, size in islice(self._files(), _MOST_FILES):
                    sizes[job_id] += size
                self._measured = [(job_id, size) for job_id, size in sizes.most_common() if size >= LEAST]
                self._until = steady() + _KEPT_SECONDS
            return self._measured

    def _files(self) -> Iterator[tuple[str, int]]:
        for folder in self._folders:
            with suppress(OSError):
                if folder.stat().st_dev == self._disk.stat().st_dev:
                    for job in os.scandir(folder):
                        if is_job_id(job.name):
                            yield from _sizes(job)


def _sizes(job: os.DirEntry[str]) -> Iterator[tuple[str, int]]:
    with suppress(OSError), os.scandir(job.path) as entries:
        for entry in entries:
            with suppress(OSError):
                yield job.name, entry.stat(follow_symlinks=False).st_blocks * 512


def advice(largest: list[tuple[str, int]]) -> str:
    """Return what to add to the message that the disk is full. ``largest``: job ids, and bytes. Pure."""
    if not largest:
        return ""
    named = ", ".join(f"{job_id} ({show_memory(size)})" for job_id, size in largest[:NAMED])
    return f"; the largest logs are of {named}: `grass job stop JOB` ends one, `grass job delete JOB` removes its logs"
