"""`POST /v1/jobs/{job}/logs`: streams the log of a job, once or continuously. A client can resume after any piece.

The server does not search for patterns: a regular expression may take forever, so it runs on the client's machine.
Used by ``jobs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from msgspec import structs

from grass.errors import NotFoundError
from grass.system.clock import steady
from grass.wire import calls
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.log_views import LogPiece
from grass.wire.views import KeepAlive
from master.api.call import HEARTBEAT, Call, Pieces
from master.api.feed import PAUSE
from master.api.log_lines import LogLine
from master.api.logs import LINE_COST, Follower, newest

SETTLED = 0.5
"""Seconds that an attempt's last line waits for its newline once the next attempt was assigned."""
_SHORTEST, _LONGEST = 0.1, 0.5
"""Bounds of the seconds between two reads of the files. Within them: ten times as long as a read takes."""

Cursor = dict[str, dict[str, int]]
"""Task → ``<attempt>/<stream>`` → bytes that the client has. The client merges and returns cursors unread."""


@dataclass(frozen=True)
class LogQuery:
    """What the client asked for, with a tail only if it has nothing yet."""

    component: str | None
    index: int | None
    tail: int | None
    since: float | None
    follow: bool
    cursor: Cursor | None
    before: float
    unfinished: bool

    @classmethod
    def from_call(cls, asked: calls.LogQuery) -> LogQuery:
        # a client without cursor and ``before`` has received nothing yet, so it still wants the tail
        tail = None if asked.cursor or asked.before is not None else asked.tail
        before = asked.before or 0.0
        return cls(
            asked.component, asked.index, tail, asked.since, asked.follow, asked.cursor, before, asked.unfinished
        )


def stream_logs(call: Call, record: JobRecord) -> Pieces:
    """Stream the log. The first piece of a followed tail also has ``before``."""
    query = LogQuery.from_call(call.read(calls.LogQuery))
    _check_part(call, record, query)
    over = record.state.ended
    if over and query.tail is not None:
        if record.ended is not None and abs(call.api.wall() - record.ended) < call.api.waits.log_late:
            return _settled_tail(call, record, query)
        return _whole(call, record, query, _follower(call, record, query))
    if query.follow or over:
        # also for a job that has just ended, because its last lines may still be on their way from the node
        return _Following(call, record, query, _follower(call, record, query)).pieces()
    return _whole(call, record, query, _follower(call, record, query))


def _check_part(call: Call, record: JobRecord, query: LogQuery) -> None:
    if query.component is None:
        return
    component = record.components.get(query.component)
    if component is None:
        known = ", ".join(record.components)
        raise NotFoundError(f"job {record.name}: no component {query.component}; it has {known}")
    if query.index is not None and not (0 <= query.index < component.end or _removed(call, record, query)):
        last = f"{query.component}.{component.end - 1}"
        raise NotFoundError(f"job {record.name}: no task {query.component}.{query.index}; the last one is {last}")


def _removed(call: Call, record: JobRecord, query: LogQuery) -> bool:
    """Return whether it is a task that was removed from its component. Its log is kept with the job."""
    assert query.component is not None and query.index is not None
    return TaskKey(query.component, query.index) in call.api.store.tasks(record.id)


def _follower(call: Call, record: JobRecord, query: LogQuery) -> Follower:
    return Follower(
        call.api.config.logs_dir,
        record.id,
        component=query.component,
        index=query.index,
        tail=query.tail,
        since=query.since,
        joined=query.cursor is None,
    )


def _settled_tail(call: Call, record: JobRecord, query: LogQuery) -> Pieces:
    """Stream the tail of a job that has just ended, once its log is complete, which only reading all of it shows."""
    everything = replace(query, tail=None)
    envelope = _Envelope(record.id, query)
    for _ in _Following(call, record, everything, _follower(call, record, everything)).pieces():
        yield envelope.piece_of([])  # shows the client that the server is working
    yield from _whole(call, record, query, _follower(call, record, query))


def _whole(call: Call, record: JobRecord, query: LogQuery, follower: Follower) -> Pieces:
    envelope = _Envelope(record.id, query)
    yield KeepAlive()  # shows the client that the server is working: reading a whole log may take long
    if query.tail is not None:
        yield envelope.piece_of(follower.drain(), live=True, is_open=False)
        return
    for lines in _batches(filter(envelope.is_new, follower.drain()), call.api.waits.log_piece):
        yield envelope.piece_of(lines)
    yield envelope.piece_of([], live=True, is_open=False)


class _Following:
    """Streams the log of one job until the job has ended and its log is complete."""

    def __init__(self, call: Call, record: JobRecord, query: LogQuery, follower: Follower) -> None:
        self._call = call
        self._record = record
        self._query = query
        self._follower = follower
        self._envelope = _Envelope(record.id, query)
        self._moved = steady()
        self._next_look = 0.0
        self._followed_by_another: dict[tuple[str, int], float] = {}

    def pieces(self) -> Pieces:
        api, sent_at, live = self._call.api, steady(), False
        with self._call.waiting() as granted, api.feed.listen(self._record.name) as changed:
            if self._query.tail is not None:
                yield self._tail()
            while True:
                changed.clear()
                over, begun = self._job_is_over(), steady()
                for piece in self._new():
                    if piece.lines or steady() - sent_at > HEARTBEAT:
                        yield piece
                        sent_at = steady()
                if over and ((complete := self._complete()) or steady() - self._moved > api.waits.log_late):
                    last = self._envelope.piece_of(self._follower.finish(), live=True, is_open=False)
                    yield last if complete else structs.replace(last, late=True)
                    return
                if not granted or api.feed.closed:
                    yield structs.replace(self._envelope.piece_of([], live=True), pause=0.0 if granted else PAUSE)
                    return
                if not live or steady() - sent_at > HEARTBEAT:
                    yield self._envelope.piece_of([], live=True)
                    sent_at, live = steady(), True
                changed.wait(min(_LONGEST, max(_SHORTEST, 10 * (steady() - begun))))

    def _tail(self) -> LogPiece:
        """Return the whole tail with all positions in one piece, so that a client can resume from this piece."""
        assert self._query.tail is not None
        lines = self._follower.poll()
        if last := self._last_words(settled=0.0):
            lines = sorted([*lines, *last], key=lambda line: line.time)
        kept = newest(lines, self._query.tail)
        piece = self._envelope.piece_of(kept)
        latest = max((line.time for line in kept), default=0.0)
        return structs.replace(piece, cursor=self._follower.positions(), before=latest)

    def _new(self) -> Iterator[LogPiece]:
        while (lines := self._follower.poll()) or self._follower.behind:
            self._moved = steady()
            yield self._envelope.piece_of(lines)
        if lines := self._follower.finish() if self._query.unfinished else self._last_words():
            yield self._envelope.piece_of(lines)

    def _last_words(self, settled: float = SETTLED) -> list[LogLine]:
        """Return last lines without newline, of ended attempts whose log is complete.

        The length of an attempt's log is known only until the task's next attempt.
        """
        unfinished, begun = self._follower.unfinished(), steady()
        if not unfinished or begun < self._next_look:
            return []
        tasks = self._call.api.store.tasks(self._record.id)
        lines: list[LogLine] = []
        for task, attempt in unfinished:
            view = tasks.get(TaskKey.parse(task))
            if view is None or view.attempt < attempt:
                continue
            if view.attempt == attempt:
                over = bool(view.sizes) and self._follower.reached(task, attempt, view.sizes or {})
            else:
                over = begun - self._followed_by_another.setdefault((task, attempt), begun) >= settled
            if over:
                lines += self._follower.finish(task, attempt)
        self._next_look = steady() + 10 * (steady() - begun)
        return sorted(lines, key=lambda line: line.time)

    def _job_is_over(self) -> bool:
        record = self._call.api.store.job(self._record.id)
        return record is None or record.id != self._record.id or record.state.ended

    def _complete(self) -> bool:
        tasks = self._call.api.store.tasks(self._record.id)
        return all(
            self._follower.reached(str(key), task.attempt, task.sizes)
            for key, task in tasks.items()
            if task.state.ended and task.sizes and self._asked_for(key)
        )

    def _asked_for(self, task: TaskKey) -> bool:
        return self._query.component in (None, task.component) and self._query.index in (None, task.index)


class _Envelope:
    """Makes pieces, without lines that the client already has."""

    def __init__(self, job_id: str, query: LogQuery) -> None:
        self._job_id = job_id
        self._had = query.cursor or {}
        self._before = query.before

    def piece_of(self, lines: Iterable[LogLine], *, live: bool = False, is_open: bool = True) -> LogPiece:
        runs, cursor = [], Cursor()
        for run in _runs(map(self._rest, filter(self.is_new, lines))):
            first, last = run[0], run[-1]
            text = "\n".join([line.text for line in run])
            runs.append((first.task, first.attempt, first.stream, first.time, text, last.newline, first.lost))
            cursor.setdefault(last.task, {})[f"{last.attempt}/{last.stream}"] = last.end
        return LogPiece(self._job_id, tuple(runs), cursor, live, is_open)

    def is_new(self, line: LogLine) -> bool:
        """Return whether the client does not have the line yet.

        ``before`` decides for streams that ended before the tail, because the client has no position of them."""
        position = self._position(line)
        return line.time > self._before if position is None else line.end > position

    def _rest(self, line: LogLine) -> LogLine:
        """Return the line without its first pieces, if the client has them."""
        position = self._position(line)
        if position is None or 4 * len(line.text) + 1 <= line.end - position:
            return line
        data = line.text.encode("utf-8", "surrogateescape")
        had = position - (line.end - line.newline - len(data))
        return line._replace(text=data[had:].decode("utf-8", "surrogateescape")) if had > 0 else line

    def _position(self, line: LogLine) -> int | None:
        return self._had.get(line.task, {}).get(f"{line.attempt}/{line.stream}")


def _batches(lines: Iterator[LogLine], most: int) -> Iterator[list[LogLine]]:
    """Group lines into batches of about ``most`` characters."""
    batch: list[LogLine] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.text) + LINE_COST
        if size >= most:
            yield batch
            batch, size = [], 0
    yield batch


def _runs(lines: Iterable[LogLine]) -> Iterator[list[LogLine]]:
    """Group consecutive lines of the same task, attempt, stream and time; only the last may lack its newline."""
    run: list[LogLine] = []
    for line in lines:
        if run and (line[:4] != run[-1][:4] or line.lost or not run[-1].newline):
            yield run
            run = []
        run.append(line)
    if run:
        yield run
