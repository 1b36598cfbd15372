"""`/v1/daemon-logs`: what the daemons of master and nodes logged. For administrators.

Reads the collector's journal (``master/collector/journal.py``), which is in the order in which entries arrived. Used by
``handlers``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grass.errors import InputError, NotFoundError, UndecodableError
from grass.lines import lines_of
from grass.system.clock import steady
from grass.wire.daemon_line import DAEMON_LINE, DaemonLine
from grass.wire.event_views import DaemonLogPiece
from master.api.call import HEARTBEAT, Call, Pieces
from master.api.feed import PAUSE
from master.api.query import Query
from master.collector.journal import folder_of, segments

AT_ONCE = 256 * 1024
"""Bytes of the journal that one piece is made of, at most."""
LOOK = 0.3
"""Seconds between two looks for new entries."""

_POSITION = re.compile(r"([0-9]{8}):([0-9]{1,12})")


@dataclass(frozen=True)
class Wanted:
    """Which entries the caller asked for. ``since``: seconds since the epoch."""

    daemon: str | None
    node: str | None
    since: float

    @classmethod
    def from_query(cls, query: Query) -> Wanted:
        return cls(query["daemon"], query["node"], query["since"] or 0.0)

    def of_lines(self, data: bytes) -> list[DaemonLine]:
        """Return the entries in some lines of the journal. A torn line is none."""
        return [line for line in map(_decoded, lines_of(data)) if line is not None and self._fits(line)]

    def _fits(self, line: DaemonLine) -> bool:
        return (
            line.time >= self.since
            and (self.daemon is None or line.daemon == self.daemon)
            and (self.node is None or line.node == self.node)
        )


def _decoded(line: bytes) -> DaemonLine | None:
    try:
        return DAEMON_LINE.decode(line)
    except UndecodableError:
        return None


def stream_logs(call: Call) -> Pieces:
    """Stream ``{"lines": [...], "after": position, "open": bool}``. ``open`` in the last piece: ask again for more."""
    folder, wanted, follow = folder_of(call.api.config), Wanted.from_query(call.query), call.query["follow"]
    after = call.query["after"]
    if after is not None and not _POSITION.fullmatch(after):
        raise InputError(f"query parameter after: {after!r} is not a position in the log")
    if not folder.is_dir():
        raise NotFoundError(
            "this cluster uses fluentd as its collector, which keeps no logs of daemons; see the journal of each host "
            f"(journalctl -u 'grass-*@{call.api.config.name}.service')"
        )
    if after is None:
        lines, after = tail(folder, wanted, call.query["limit"])
        yield DaemonLogPiece(tuple(lines), after, follow)
    yield from _follow(call, folder, wanted, after) if follow else _all(folder, wanted, after)


def _all(folder: Path, wanted: Wanted, after: str) -> Pieces:
    for lines, end in _new(folder, wanted, after):
        yield DaemonLogPiece(tuple(lines), end, False)


def _follow(call: Call, folder: Path, wanted: Wanted, after: str) -> Pieces:
    sent_at = steady()
    with call.waiting() as granted, call.api.feed.listen() as changed:
        while True:
            changed.clear()
            for lines, end in _new(folder, wanted, after):
                after = end
                if lines or steady() - sent_at > HEARTBEAT:
                    yield DaemonLogPiece(tuple(lines), after, True)
                    sent_at = steady()
            if not granted or call.api.feed.closed:
                yield DaemonLogPiece((), after, True, 0.0 if granted else PAUSE)
                return
            if steady() - sent_at > HEARTBEAT:
                yield DaemonLogPiece((), after, True)
                sent_at = steady()
            changed.wait(LOOK)


def tail(folder: Path, wanted: Wanted, count: int) -> tuple[list[DaemonLine], str]:
    """Return the last ``count`` entries, oldest first, and the position behind them. Reads no further than needed."""
    kept: list[DaemonLine] = []
    after = "00000000:0"
    for path in reversed(segments(folder)):
        data = _whole_lines(_read(path, 0))
        if after == "00000000:0":
            after = f"{path.stem}:{len(data)}"
        if len(kept) >= count:
            break
        kept = wanted.of_lines(data) + kept
    return kept[max(0, len(kept) - count) :], after


def _new(folder: Path, wanted: Wanted, after: str) -> Iterator[tuple[list[DaemonLine], str]]:
    """Yield what follows the position ``after``, with the position behind each. A removed segment is passed over."""
    name, _, offset = after.partition(":")
    for path in segments(folder):
        if path.stem < name:
            continue
        start = int(offset) if path.stem == name else 0
        while data := _whole_lines(_read(path, start, AT_ONCE)):
            start += len(data)
            yield wanted.of_lines(data), f"{path.stem}:{start}"


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def _read(path: Path, start: int, most: int | None = None) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(most)
    except FileNotFoundError:  # a newer segment took its place
        return b""
