"""The journal of daemons: what the daemons of master and nodes logged, in the order in which it arrived.

``<home>/daemon-logs/<number>.jsonl``: segments of ``SEGMENT`` bytes, the newest ``SEGMENTS`` of them. They are outside
of the share, because only administrators may read them. The collector writes, ``master.api.daemon_logs`` reads. Used by
``__main__``, ``server`` and ``master.api.daemon_logs``.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grass.api.daemon_entry import entry_of
from grass.config import ClusterConfig
from grass.errors import UndecodableError
from grass.model.daemons import SENDING_LOGS
from grass.model.names import is_name
from grass.system.clock import steady
from grass.wire.codec import encode
from grass.wire.daemon_line import DAEMON_ENTRY, LONGEST, MASTER, TAG, DaemonEntry, DaemonLine

SEGMENT = 8 << 20
SEGMENTS = 8
RATE = 32_768.0
"""Characters per second that one node may log for long, so that it cannot soon push out what others logged."""
BURST = 1 << 20
MOST_NODES = 10_000
"""Nodes whose allowance is remembered."""
LEVELS = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}

_TAG = re.compile(rf"{TAG}\.(.+)\.({'|'.join(SENDING_LOGS)})")
_SEGMENT = re.compile(r"[0-9]{8}\.jsonl")


@dataclass(frozen=True)
class Source:
    """The daemon that logged an entry, and its node.

    ``node`` None: the master.
    """

    node: str | None
    daemon: str

    @classmethod
    def of_tag(cls, tag: str) -> Source | None:
        match = _TAG.fullmatch(tag)
        if match is None or not (match[1] == MASTER or is_name(match[1])):
            return None
        return cls(None if match[1] == MASTER else match[1], match[2])


def folder_of(config: ClusterConfig) -> Path:
    return Path(config.home) / "daemon-logs"


def segments(folder: Path) -> list[Path]:
    """Return the segments, oldest first."""
    try:
        return sorted(path for path in folder.iterdir() if _SEGMENT.fullmatch(path.name))
    except FileNotFoundError:
        return []


class Journal:
    """One instance, of the collector. ``now``: steady seconds."""

    def __init__(
        self, folder: Path, segment: int = SEGMENT, segments: int = SEGMENTS, now: Callable[[], float] = steady
    ) -> None:
        self._folder = folder
        self._segment = segment
        self._segments = segments
        self._now = now
        self._allowed: dict[str, tuple[float, float]] = {}
        """Characters that a node may log now, at a steady time."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def append(self, source: Source, records: Iterable[object]) -> int:
        """Append the entries; return how many were dropped: malformed, or more than a node may log. Raises OSError."""
        dropped, lines = 0, []
        for record in records:
            try:
                entry = DAEMON_ENTRY.convert(record)
            except UndecodableError:
                dropped += 1
                continue
            if entry.level not in LEVELS or not math.isfinite(entry.time) or not self._admits(source.node, entry):
                dropped += 1
                continue
            lines.append(DaemonLine(entry.time, source.node, source.daemon, entry.level, entry.text[:LONGEST]))
        if lines:
            self._append("".join(f"{encode(line)}\n" for line in lines).encode())
        return dropped

    def _admits(self, node: str | None, entry: DaemonEntry) -> bool:
        if node is None:
            return True
        cost, now = len(entry.text) + 100, self._now()
        left, since = self._allowed.get(node, (float(BURST), now))
        left = min(float(BURST), left + (now - since) * RATE)
        admitted = left >= cost
        self._allowed.pop(node, None)
        self._allowed[node] = (left - cost if admitted else left, now)
        if len(self._allowed) > MOST_NODES:
            del self._allowed[next(iter(self._allowed))]
        return admitted

    def _append(self, data: bytes) -> None:
        """Append whole lines. A line that a killed collector, or a full disk, left incomplete is ended first."""
        known = segments(self._folder)
        path = known[-1] if known else self._folder / "00000001.jsonl"
        if known and path.stat().st_size >= self._segment:
            for old in known[: max(0, len(known) + 1 - self._segments)]:
                old.unlink(missing_ok=True)
            path = self._folder / f"{int(path.stem) + 1:08d}.jsonl"
        with path.open("ab+") as file:
            end = file.seek(0, 2)
            if end:
                file.seek(end - 1)
                data = data if file.read(1) == b"\n" else b"\n" + data
            file.write(data)


class OwnLog(logging.Handler):
    """Writes the collector's own log into its journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # its standard error has it, too
            self._journal.append(Source(None, "collector"), [entry_of(record)])
