"""Reads the logs of a job, once or continuously. File access only. Used by ``log_stream``.

Lines of all tasks are merged by time. Memory is one buffer per task, ``BUFFERS`` bytes in all, incomplete lines of
``INCOMPLETE`` bytes, and a tail of ``LONGEST_TAIL`` bytes, whatever the tasks print.
A job that never printed anything has no lines, which is not an error.
"""

from __future__ import annotations

import heapq
import itertools
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from grass.errors import InputError
from grass.model.names import is_job_id
from master.api.log_files import TaskLog, known, tail_position
from master.api.log_lines import LogLine

__all__ = ["Follower", "LogLine"]

POLL_BYTES = 1 << 20
"""Text that one ``poll`` returns at most, approximately."""
LINE_COST = 64
"""What a line counts besides its text, so that a megabyte of empty lines does not become a gigabyte of objects."""
BUFFERS = 16 << 20
INCOMPLETE = 16 << 20
"""Bytes of incomplete lines of all tasks. Beyond this, they are returned as pieces of their lines."""
LONGEST_TAIL = 16 << 20
"""A tail has fewer lines than were asked for if these are longer than this together, with ``LINE_COST`` for each."""
_FILE = re.compile(r"(.+)\.([0-9]+)\.jsonl")


class Follower:
    """Reads the lines of a job. Not safe for several threads.

    ``tail``: start with this many of the last lines, over all tasks. ``since``: wall-clock seconds. ``joined``: lines
    that were read at once may come as one (``Assembler``).
    ``poll`` costs one ``stat`` per task if nothing is new.
    """

    def __init__(
        self,
        logs_dir: Path,
        job_id: str,
        *,
        component: str | None = None,
        index: int | None = None,
        tail: int | None = None,
        since: float | None = None,
        joined: bool = False,
    ) -> None:
        if not is_job_id(job_id):
            raise InputError(f"job id {job_id!r}: malformed")
        if tail is not None and not 0 <= tail <= sys.maxsize:
            raise InputError(f"tail: must be from 0 to {sys.maxsize}, got {tail}")
        self._folder = Path(logs_dir) / job_id
        self._component, self._index = component, index
        self._tail, self._since = tail, since
        self._joined = joined and tail is None
        self._logs: dict[str, TaskLog] = {}
        self._heap: list[tuple[float, int, TaskLog]] = []
        self._order = itertools.count()
        self._chunk = BUFFERS
        self._held = 0
        """Bytes of incomplete lines of all tasks."""
        self._started = False

    def poll(self) -> list[LogLine]:
        """Return new lines, merged by time; [] if there are none. There may be more: call until it returns []."""
        if self._tail is not None and not self._started:
            self._started = True
            return list(self._last(self._tail))
        if not self._heap:
            self._refresh()
        lines: list[LogLine] = []
        while self._heap and not lines:
            lines = list(self._merged(POLL_BYTES))
        return lines

    @property
    def behind(self) -> bool:
        """Return whether ``poll`` stopped at its limit, and there is more to read."""
        return bool(self._heap)

    def positions(self) -> dict[str, dict[str, int]]:
        """Return by task and ``<attempt>/<stream>`` the offset at which the last complete line ends."""
        return {
            task: {f"{attempt}/{stream}": end for (attempt, stream), end in log.assembler.positions().items()}
            for task, log in self._logs.items()
        }

    def drain(self) -> Iterator[LogLine]:
        """Yield all that there is now, oldest first, then the last lines without newline."""
        if self._tail is not None:
            # Sorting is stable, and only last lines without newline may move up.
            lines = sorted([*self._last(self._tail), *self.finish()], key=lambda line: line.time)
            yield from newest(lines, self._tail)
            return
        self._refresh()
        yield from self._merged(None, finish=True)

    def reached(self, task: str, attempt: int, sizes: dict[str, int]) -> bool:
        """Return whether ``poll`` has returned all of an attempt, whose ``ended`` event reported these sizes."""
        log = self._logs.get(task)
        if log is None:
            return not any(sizes.values())
        return all(log.end(attempt, stream) >= size for stream, size in sizes.items())

    def unfinished(self) -> list[tuple[str, int]]:
        """Return (task, attempt) pairs whose last line has no newline yet."""
        return [(task, attempt) for task, log in self._logs.items() for attempt in log.assembler.unfinished()]

    def finish(self, task: str | None = None, attempt: int | None = None) -> list[LogLine]:
        """Return last lines without newline, of one attempt that was ``reached``, or of all. Each is returned once."""
        logs = self._logs.values() if task is None else filter(None, [self._logs.get(task)])
        lines = [line for log in logs for line in log.assembler.finish(attempt)]
        self._held = sum(log.assembler.held for log in self._logs.values())
        return sorted(filter(self._wanted, known(lines)), key=lambda line: line.time)

    def _last(self, count: int) -> deque[LogLine]:
        self._refresh(count)
        return newest(self._merged(None), count)

    def _merged(self, limit: int | None, *, finish: bool = False) -> Iterator[LogLine]:
        """Yield lines in the order of their blocks' times, until about ``limit`` characters were read.

        ``finish``: at the end of a task's file also yield its last lines without newline.
        """
        returned = 0
        while self._heap and (limit is None or returned < limit):
            _, order, log = self._heap[0]
            self._held -= log.assembler.held
            lines = log.lines(self._chunk)
            self._held += log.assembler.held
            if self._held > INCOMPLETE:
                lines += [line for each in self._logs.values() for line in each.assembler.finish()]
                self._held = 0
            for line in lines:
                returned += 1 if line is None else len(line.text) + LINE_COST
                if line is not None and self._wanted(line):
                    yield line
            time = log.next_time(self._chunk)
            if time is None:
                heapq.heappop(self._heap)
                if finish:
                    yield from self.finish(log.task)
            else:
                heapq.heapreplace(self._heap, (time, order, log))

    def _refresh(self, tail: int | None = None) -> None:
        """Find files that have grown. ``tail``: how many of the last lines of new files to read."""
        found = self._files()
        self._chunk = min(256 * 1024, max(4096, BUFFERS // max(1, len(found))))
        for task, path in found:
            try:
                info = path.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            log = self._logs.get(task)
            if log is None:
                position = 0 if tail is None else tail_position(path, tail, info.st_size)
                log = self._logs[task] = TaskLog(path, task, position=position, joined=self._joined)
            if log.refresh(info) and (time := log.next_time(self._chunk)) is not None:
                heapq.heappush(self._heap, (time, next(self._order), log))

    def _files(self) -> list[tuple[str, Path]]:
        if self._component is not None and self._index is not None:
            task = f"{self._component}.{self._index}"
            return [] if "/" in task else [(task, self._folder / f"{task}.jsonl")]
        try:
            names = [entry.name for entry in os.scandir(self._folder)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = []
        for name in names:
            match = _FILE.fullmatch(name)
            if match and self._component in (None, match[1]) and self._index in (None, int(match[2])):
                found.append((match[1], int(match[2]), self._folder / name))
        return [(f"{component}.{index}", path) for component, index, path in sorted(found)]

    def _wanted(self, line: LogLine) -> bool:
        return self._since is None or line.time >= self._since


def newest(lines: Iterable[LogLine], count: int) -> deque[LogLine]:
    """Return the last ``count`` lines, or as many of them as ``LONGEST_TAIL`` allows."""
    kept: deque[LogLine] = deque()
    size = 0
    for line in lines:
        kept.append(line)
        size += len(line.text) + LINE_COST
        while len(kept) > count or (size > LONGEST_TAIL and len(kept) > 1):
            size -= len(kept.popleft().text) + LINE_COST
    return kept
