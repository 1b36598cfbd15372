"""Copies the logs of pods into the files of their attempts, from where they are shipped. Used by ``runtime``.

Each of a bounded number of threads follows one log. While more pods run than there are threads, they take turns; logs
that end, or whose pods are about to be deleted, come first. An answer that breaks off is continued (``log_position``).
Kubernetes does not tell stdout and stderr apart: all is standard output.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from grass.backoff import Backoff
from grass.errors import UnreachableError
from grass.kubernetes.api import ApiServer, RefusedError, Stream
from grass.system import clock
from grass.system.atomic_file import replace_file
from node.runtime.kubernetes.judge import TASK
from node.runtime.kubernetes.log_position import Copied, LogPosition, NoLogError

FOLLOWERS = 100
"""Logs that are followed at once. Each takes a thread and a connection, about 150 kB."""
_QUIET = 300.0
"""Seconds without a line after which a log is asked for again: a kubelet that rotated it may say nothing more."""
_TURN = 5.0
"""Seconds for which a log is followed at least, while other logs wait for a thread."""
_TURN_EVERY = 1.0
_STORE_EVERY = 1.0
_FIRST_RETRY, _LONGEST_RETRY = 0.2, 10.0
_LAST_TRIES = 3
_REST = 60.0
"""Seconds for which the rest of a log is asked for, while the server answers and cannot reach the pod's machine."""
_ANSWER = 30.0
"""Seconds without a byte of that rest after which it is asked for again."""
UNREAD = b"[grass] the end of this log may be missing: it could not be read any more\n"
LOST = b"[grass] lines of this log are missing: Kubernetes removed them before they were read\n"

log = logging.getLogger(__name__)


class PodLog:
    """The log of one pod. ``path``: that of its log in the API. ``file``: where it goes."""

    def __init__(self, key: str, path: str, file: str) -> None:
        self.key = key
        self.path = path
        self.file = Path(file)
        self.ended = threading.Event()
        """Set when its container has ended: what the API has then is all."""
        self.complete = False
        self.open = threading.Event()
        """Set while it is followed."""
        self.opened_at = 0.0
        self.hurried: Callable[[], None] | None = None
        """Set if it comes before others, and gives no turn to them: called once it is followed."""
        self.stream: Stream | None = None
        self.gaps = 0
        """Places where lines are missing."""
        self.gone = False
        """Whether its machine has no log of the container, which was seen to run."""
        self.followed = False
        """Whether it was followed to the end of the last answer: of a deleted pod, nothing may be left to read then."""
        self._state = self.file.with_suffix(".podlog")
        self._position = LogPosition()
        self._size = 0
        self._beyond = memoryview(b"")
        """What is in the file behind ``_size``: an earlier agent was killed before it had stored that it wrote this."""
        self._stored_at = 0.0

    def restore(self) -> None:
        """Go on where an earlier agent stored that it was. What it wrote beyond comes again, and may have been shipped:
        it stays, and is not written twice."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            stored = json.loads(self._state.read_bytes())
            size, self.complete, gaps = (
                int(stored.pop("size")),
                bool(stored.pop("complete")),
                int(stored.pop("gaps", 0)),
            )
            self._position, self._size, self.gaps = LogPosition(Copied(**stored)), size, gaps
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.file.open("a+b") as file:
            if file.tell() < self._size:  # the files of this node were lost
                self._position, self._size = LogPosition(), 0
                file.truncate(0)
            file.seek(self._size)
            self._beyond = memoryview(file.read())

    def copy(self, api: ApiServer, silence: float, *, follow: bool) -> None:
        """Copy what is new. ``follow``: until the container ends. Raises UnreachableError after ``silence`` seconds
        without a line."""
        query: dict[str, str | bool | None] = {"timestamps": True, "follow": follow or None}
        query |= {"container": TASK, "sinceTime": self._position.since()}
        stream = self.stream = api.stream(self.path, query, silence)
        try:
            with self.file.open("ab") as file:
                if follow:
                    self._opens()
                self._take(stream, file)
        finally:
            self.stream = None
            self.open.clear()
            self._store()

    def _opens(self) -> None:
        self.opened_at = clock.steady()
        self.open.set()
        if (call := self.hurried) is not None:
            call()

    def _take(self, stream: Stream, file: BinaryIO) -> None:
        for batch in stream.batches():
            for line in batch:
                text, lost = self._position.read_line(line)
                if lost:
                    self.gaps += 1
                    self._keep_beyond()
                    self._write(file, LOST)
                if text is not None:
                    self._write(file, text + b"\n")
            file.flush()
            if clock.steady() - self._stored_at > _STORE_EVERY:
                self._store()

    def note(self, text: bytes) -> None:
        """Add a line of Grass to what was copied."""
        self._keep_beyond()
        with suppress(OSError), self.file.open("ab") as file:
            self._write(file, text)

    def sizes(self) -> dict[str, int]:
        return {"stdout": self._size, "stderr": 0}

    def _write(self, file: BinaryIO, text: bytes) -> None:
        known, self._beyond = self._beyond[: len(text)], self._beyond[len(text) :]
        if known != text[: len(known)]:  # the kubelet tells something else than before
            file.truncate(self._size)
            known = self._beyond = memoryview(b"")
        file.write(text[len(known) :])
        self._size += len(text)

    def _keep_beyond(self) -> None:
        """Count what nobody tells again as copied."""
        self._size, self._beyond = self._size + len(self._beyond), memoryview(b"")

    def _store(self) -> None:
        self._stored_at = clock.steady()
        state = {**self._position.copied()._asdict(), "size": self._size, "complete": self.complete, "gaps": self.gaps}
        with suppress(OSError):
            replace_file(self._state, json.dumps(state))

    def follow_no_more(self) -> None:
        """End a reply that does not end by itself, as that of a machine which is gone, or whose turn is over. What was
        not read yet is read later. For another thread."""
        if self.open.is_set() and (stream := self.stream) is not None:
            stream.abort()

    @property
    def gives_way(self) -> bool:
        """Return whether another log may be followed in its place for a while."""
        return not self.ended.is_set() and self.hurried is None

    def end(self) -> None:
        """Note that it is complete, also for a later agent: a pod stays for a while after its log is gone."""
        self._keep_beyond()
        self.complete = True
        self._store()


class Logs:
    """Copies logs in threads. ``over`` is called in a thread when the log of an ended container is complete, ``gone``
    when a container is ``gone`` whose end is not known.

    ``reachable`` says whether the API server answers at present. What it cannot read then is given up after ``rest``
    seconds: the machine of the pod is gone. While the server is away, nothing is given up.
    """

    def __init__(
        self,
        api: ApiServer,
        over: Callable[[PodLog], None],
        reachable: Callable[[], bool],
        followers: int = FOLLOWERS,
        rest: float = _REST,
        turn: float = _TURN,
        gone: Callable[[PodLog], None] = lambda log: None,
    ) -> None:
        self._api = api
        self._over = over
        self._gone = gone
        self._reachable = reachable
        self._most = followers
        self._rest = rest
        self._turn = turn
        self._changed = threading.Condition()
        self._waiting: deque[PodLog] = deque()
        """Logs that wait for a thread."""
        self._served: set[PodLog] = set()
        """Logs that have one."""
        self._threads: list[threading.Thread] = []
        self._turns: threading.Thread | None = None
        self._stopping = False

    def add(self, each: PodLog) -> None:
        """Begin to copy a log. For the loop's thread, as ``finish`` and ``hurry``."""
        with self._changed:
            self._waiting.append(each)
            self._changed.notify()
            if len(self._threads) < min(self._most, len(self._waiting) + len(self._served)):
                self._threads.append(self._started(self._run, "pod-log"))
            elif self._turns is None and len(self._threads) >= self._most:
                self._turns = self._started(self._take_turns, "pod-log-turns")

    def finish(self, each: PodLog) -> None:
        """Read the rest of a log whose container has ended. The end of its attempt waits for that."""
        each.ended.set()
        with self._changed:
            self._come_first(each)

    def hurry(self, each: PodLog, opened: Callable[[], None]) -> None:
        """Follow a log soon, because its pod is about to be deleted. ``opened`` is called in a thread once it is."""
        with self._changed:
            each.hurried = opened
            self._come_first(each)
        if each.open.is_set():
            opened()

    def stop(self) -> None:
        """End the threads; the next agent goes on where they were."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            served = list(self._served)
        for each in served:
            if (stream := each.stream) is not None:
                stream.abort()
        for thread in self._threads:
            thread.join(5.0)

    def _started(self, run: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def _come_first(self, each: PodLog) -> None:
        if each not in self._waiting:
            return
        self._waiting.remove(each)
        place = next((number for number, other in enumerate(self._waiting) if other.gives_way), len(self._waiting))
        self._waiting.insert(place, each)
        self._make_room(1, 0.0)

    def _make_room(self, wanted: int, followed_for: float) -> None:
        """End the turns of logs that have been followed for the longest time, and at least for so many seconds."""
        until = clock.steady() - followed_for
        others = [each for each in self._served if each.gives_way and each.open.is_set() and each.opened_at <= until]
        for each in sorted(others, key=lambda each: each.opened_at)[:wanted]:
            each.follow_no_more()

    def _take_turns(self) -> None:
        while not self._stopping:
            with self._changed:
                self._make_room(len(self._waiting), self._turn)
                self._changed.wait_for(lambda: self._stopping, min(self._turn, _TURN_EVERY))

    def _run(self) -> None:
        while (each := self._next()) is not None:
            again = False
            try:
                again = not self._serve(each)
            except OSError as error:  # a full disk
                log.warning("%s: its output cannot be copied (%s); trying again", each.key, error)
                clock.sleep(_STORE_EVERY)
                again = True
            finally:
                self._leave(each, again=again)

    def _next(self) -> PodLog | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._waiting)
            if self._stopping:
                return None
            each = self._waiting.popleft()
            self._served.add(each)
            return each

    def _leave(self, each: PodLog, *, again: bool) -> None:
        with self._changed:
            self._served.discard(each)
            if again:
                self._waiting.append(each)
                if not each.gives_way:
                    self._come_first(each)
                self._changed.notify()

    def _serve(self, each: PodLog) -> bool:
        """Copy a log to its end. Return whether that was reached; otherwise its turn is over."""
        each.restore()
        if not each.complete and not self._copied(each):
            return False
        each.end()
        self._over(each)
        return True

    def _copied(self, each: PodLog) -> bool:
        """Return whether a log was copied to its end."""
        retry, failures, unread = Backoff(_FIRST_RETRY, _LONGEST_RETRY), 0, 0.0
        while not self._stopping:
            ended = each.ended.is_set()
            try:
                each.copy(self._api, _ANSWER if ended else _QUIET, follow=not ended)
                each.followed, failures = True, 0
                if ended:
                    return True
            except (RefusedError, NoLogError) as error:
                failures += 1
                if ended and (each.followed or failures >= _LAST_TRIES):
                    return self._end_unread(each, error)
                if isinstance(error, NoLogError) and failures == _LAST_TRIES:
                    each.gone = True
                    self._gone(each)
            except UnreachableError as error:
                each.followed, failures = False, failures + 1
                unread = (unread or clock.steady()) if ended and self._reachable() else 0.0
                if unread and clock.steady() - unread > self._rest:
                    return self._end_unread(each, error)
            if self._waiting and each.gives_way:
                return False
            if failures:
                clock.sleep(retry.next())
            else:
                each.ended.wait(retry.next())
        return False

    def _end_unread(self, each: PodLog, error: Exception) -> bool:
        """Give up the rest of a log, and say so in it, unless it was followed to the end of what there was."""
        if not each.followed:
            log.warning("%s: the rest of its log cannot be read: %s", each.key, error)
            each.gaps += 1
            each.note(UNREAD)
        return True
