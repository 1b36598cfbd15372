"""Ships the output of tasks to the collector, in a thread of its own. Used by the node-agent.

Delivery is at least once: an offset advances only when its block is acknowledged, and is stored in the attempt's files
(``shipped``). The collector drops repeated blocks. One batch is in progress at a time, with at most ``BATCH`` bytes of
output, which bounds the memory. A full batch is followed at once by the next. After a smaller one the shipper pauses
for ``PAUSE``, so that thousands of small tasks share batches.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from grass.api.collector_link import collector_address
from grass.node_config import NodeHome
from grass.system import clock
from grass.wire.log_block import LogBlock
from node.agent.forward import Link, Signal
from node.agent.log_blocks import BLOCK
from node.agent.log_source import AttemptLog, Stream

BATCH = 1 << 20
STREAM_SHARE = 4 * BLOCK
"""Most bytes of one stream in a batch, so that a flood leaves room for the others."""
RECORD = 256
"""Bytes that a block counts in addition to its output."""
PAUSE = 0.01

log = logging.getLogger(__name__)


class Batch:
    """Blocks of many attempts, by tag, and the bytes by which each stream advances when they are acknowledged."""

    def __init__(self) -> None:
        self.records: list[tuple[str, list[LogBlock]]] = []
        self.progress: list[tuple[AttemptLog, Stream, int]] = []
        self.visited: list[AttemptLog] = []
        self._keys: list[str] = []
        """Keys of the attempts in ``records``."""
        self.size = 0

    def add(self, followed: AttemptLog, now: float, wall: float) -> None:
        self.visited.append(followed)
        followed.drop_excess(now)
        records = []
        for stream in followed.streams:
            blocks = stream.read(STREAM_SHARE, now)
            begin = offset = stream.offset  # reading may have gone on behind output that was dropped
            for data in blocks:
                block = LogBlock.of_data(followed.attempt, stream.name, offset, wall, data, followed.output_limit)
                records.append(block)
                offset += len(data)
            if blocks:
                self.size += offset - begin + RECORD * len(blocks)
                self.progress.append((followed, stream, offset - begin))
        followed.store_bases(now)
        if records:
            self.records.append((followed.tag, records))
            self._keys.append(followed.key)

    def output(self) -> Iterator[tuple[str, LogBlock]]:
        """Yield the blocks of standard output, each with the key of its attempt."""
        for key, (_, blocks) in zip(self._keys, self.records, strict=True):
            yield from ((key, block) for block in blocks if block.stream == "stdout" and block.text)


class Shipper:
    """The caller follows an attempt and reports its end; the log is complete once the collector has all of it.

    All methods may be called from any thread and return at once, except ``stop``. ``on_complete`` is called in the
    shipper's thread, and so is ``on_output``, with key, text and time of each block of standard output that the
    collector has acknowledged.
    """

    def __init__(
        self,
        config: NodeHome,
        key: str = "",
        *,
        on_complete: Callable[[str], None] | None = None,
        on_output: Callable[[str, str, float], None] | None = None,
    ) -> None:
        self._on_complete = on_complete
        self._on_output = on_output
        self._lock = threading.Lock()
        self._followed: dict[str, AttemptLog] = {}
        self._completed: set[str] = set()
        self._inbox: list[AttemptLog] = []
        self._wake = Signal()
        self._stop = Signal()
        self._stopping = False
        self._link = Link(collector_address(config), self._stop.descriptor, config.node.name, key)
        self._heap: list[tuple[float, int, AttemptLog]] = []
        self._order = itertools.count()
        self._unstored: dict[str, AttemptLog] = {}
        self._thread = threading.Thread(target=self._run, name="log-shipper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and store the offsets. The next shipper sends what is not acknowledged."""
        self._stopping = True
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._link.close()
        self._stop.close()
        self._wake.close()

    def follow(self, key: str, directory: str | os.PathLike[str], prefix: str = "") -> None:
        """Ship ``stdout`` and ``stderr`` in ``directory``, which need not exist yet, as attempt ``key``.

        ``prefix``: the beginning of its files' names, if attempts share the directory.
        """
        with self._lock:
            if key in self._followed or key in self._completed:
                return
            followed = self._followed[key] = AttemptLog(key, Path(directory), prefix)
            self._inbox.append(followed)
        self._wake.set()

    def bound(self, key: str, limit: int, *, searched: bool) -> None:
        """Set how much output of a followed attempt may wait, and whether a readiness check still reads its files."""
        with self._lock:
            followed = self._followed.get(key)
        if followed is not None:
            followed.output_limit, followed.searched = limit, searched

    def ship_to_end(self, key: str, sizes: dict[str, int]) -> dict[str, int]:
        """Note that the attempt has ended: ship up to exactly these sizes. An attempt that is not followed ships
        nothing.

        Return each stream's last offset for readers. It is larger than the size if the task truncated the file.
        """
        with self._lock:
            followed = self._followed.get(key)
            if followed is None:
                if key not in self._completed and any(sizes.values()):
                    log.warning("%s ended but its output was never followed; its log is lost", key)
                self._completed.add(key)
                return sizes
            offsets = followed.final_offsets(sizes)
            followed.sizes = dict(sizes)
            self._inbox.append(followed)
        self._wake.set()
        return offsets

    def complete(self, key: str) -> bool:
        """Return whether the collector has the whole log of an ended attempt. False for a forgotten one."""
        with self._lock:
            return key in self._completed

    def forget(self, key: str) -> None:
        """Stop following an attempt and forget it. Called when its files are removed."""
        with self._lock:
            self._completed.discard(key)
            self._followed.pop(key, None)

    def _run(self) -> None:
        while not self._stopping:
            now = clock.steady()
            self._take_inbox(now)
            full = self._ship(now)
            self._store(now)
            if not full and not self._stopping:
                self._pause()
        for followed in self._unstored.values():
            followed.store(clock.steady())

    def _pause(self) -> None:
        self._stop.wait(PAUSE)
        if not self._stopping:
            now = clock.steady()
            self._wake.wait(self._next(now))

    def _next(self, now: float) -> float | None:
        """Return the seconds until the next read is due; None: wait for a call."""
        if not self._heap:
            return 1.0 if self._unstored else None
        return max(self._heap[0][0], self._link.retry_at) - now

    def _take_inbox(self, now: float) -> None:
        with self._lock:
            inbox, self._inbox = self._inbox, []
        for followed in inbox:
            followed.restore(now)
            followed.end()
            if not self._finish_if_complete(followed, now):
                self._push(followed, now)

    def _push(self, followed: AttemptLog, due: float) -> None:
        # The ticket invalidates older entries of the same attempt: twice in one batch, it would advance twice.
        followed.ticket = next(self._order)
        heapq.heappush(self._heap, (due, followed.ticket, followed))

    def _ship(self, now: float) -> bool:
        """Send one batch. Return whether more can be sent at once."""
        if not self._heap or self._heap[0][0] > now or not self._link.connected():
            return False
        batch = self._fill(now)
        delivered = not batch.records or self._link.exchange(batch.records)
        if delivered:
            self._report_output(batch)
            for followed, stream, size in batch.progress:
                followed.advance(stream, size, now)
                self._unstored[followed.key] = followed
        for followed in batch.visited:
            if not self._finish_if_complete(followed, now):
                self._push(followed, followed.next_read(now) if delivered else now)
        return delivered and bool(self._heap) and self._heap[0][0] <= now

    def _report_output(self, batch: Batch) -> None:
        if self._on_output is not None:
            for key, block in batch.output():
                self._on_output(key, block.text or "", block.time)

    def _fill(self, now: float) -> Batch:
        batch = Batch()
        wall = clock.wall()
        while self._heap and self._heap[0][0] <= now and batch.size <= BATCH - 2 * STREAM_SHARE:
            _, ticket, followed = heapq.heappop(self._heap)
            if ticket == followed.ticket:
                batch.add(followed, now, wall)
        return batch

    def _finish_if_complete(self, followed: AttemptLog, now: float) -> bool:
        """Drop an attempt whose log is complete, or that was forgotten. Return whether it was dropped."""
        if self._followed.get(followed.key) is not followed:
            self._unstored.pop(followed.key, None)
            return True
        if not followed.finished:
            return False
        if followed.unstored():
            followed.store(now)
        self._unstored.pop(followed.key, None)
        with self._lock:
            self._followed.pop(followed.key, None)
            self._completed.add(followed.key)
        if self._on_complete is not None:
            self._on_complete(followed.key)
        return True

    def _store(self, now: float) -> None:
        due = [followed for followed in self._unstored.values() if followed.store_due(now)]
        for followed in due:
            followed.store(now)
            del self._unstored[followed.key]
