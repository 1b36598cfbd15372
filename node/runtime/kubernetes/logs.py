"""Copies the logs of pods into the files of their attempts, from where they are shipped. Used by ``runtime``.

Each of a bounded number of threads follows one log. While more pods run than there are threads, a thread turns to the
next log when its own has been quiet for a moment. An answer that breaks off is continued (``log_position``). Kubernetes
does not tell stdout and stderr apart: all is standard output.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
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
"""The same while other logs wait for a thread."""
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
        self.stream: Stream | None = None
        self.followed = False
        """Whether it was followed to the end of the last answer: of a deleted pod, nothing may be left to read then."""
        self._state = self.file.with_suffix(".podlog")
        self._position = LogPosition()
        self._size = 0
        self._stored_at = 0.0

    def restore(self) -> None:
        """Go on where an earlier agent stored that it was; what it wrote beyond is read again."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            stored = json.loads(self._state.read_bytes())
            size, self.complete = int(stored.pop("size")), bool(stored.pop("complete"))
            self._position, self._size = LogPosition(Copied(**stored)), size
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.file.open("ab") as file:
            if file.tell() < self._size:  # the files of this node were lost
                self._position, self._size = LogPosition(), 0
            file.truncate(self._size)

    def copy(self, api: ApiServer, silence: float, *, follow: bool) -> None:
        """Copy what is new. ``follow``: until the container ends. Raises UnreachableError after ``silence`` seconds
        without a line."""
        query: dict[str, str | bool | None] = {"timestamps": True, "follow": follow or None}
        query |= {"container": TASK, "sinceTime": self._position.since()}
        stream = self.stream = api.stream(self.path, query, silence)
        try:
            with self.file.open("ab") as file:
                if follow:
                    self.open.set()
                self._take(stream, file)
        finally:
            self.stream = None
            self.open.clear()
            self._store()

    def _take(self, stream: Stream, file: BinaryIO) -> None:
        for batch in stream.batches():
            for line in batch:
                text, lost = self._position.read_line(line)
                if lost:
                    self._write(file, LOST)
                if text is not None:
                    self._write(file, text + b"\n")
            file.flush()
            if clock.steady() - self._stored_at > _STORE_EVERY:
                self._store()

    def note(self, text: bytes) -> None:
        """Add a line of Grass to what was copied."""
        with suppress(OSError), self.file.open("ab") as file:
            self._write(file, text)

    def sizes(self) -> dict[str, int]:
        return {"stdout": self._size, "stderr": 0}

    def _write(self, file: BinaryIO, text: bytes) -> None:
        file.write(text)
        self._size += len(text)

    def _store(self) -> None:
        self._stored_at = clock.steady()
        state = {**self._position.copied()._asdict(), "size": self._size, "complete": self.complete}
        with suppress(OSError):
            replace_file(self._state, json.dumps(state))

    def follow_no_more(self) -> None:
        """End a reply that does not end by itself, as that of a machine which is gone. For another thread."""
        if self.open.is_set() and (stream := self.stream) is not None:
            stream.abort()

    def end(self) -> None:
        """Note that it is complete, also for a later agent: a pod stays for a while after its log is gone."""
        self.complete = True
        self._store()


class Logs:
    """Copies logs in threads. ``over`` is called in a thread when the log of an ended container is complete.

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
    ) -> None:
        self._api = api
        self._over = over
        self._reachable = reachable
        self._most = followers
        self._rest = rest
        self._waiting: queue.SimpleQueue[PodLog | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._stopping = False
        self._incomplete: set[PodLog] = set()
        """The logs that are being copied or wait for it."""

    def add(self, each: PodLog) -> None:
        """Begin to copy a log. For the loop's thread."""
        self._incomplete.add(each)
        self._waiting.put(each)
        if len(self._threads) < min(self._most, len(self._incomplete)):
            thread = threading.Thread(target=self._run, name="pod-log", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End the threads; the next agent goes on where they were."""
        self._stopping = True
        for _ in self._threads:
            self._waiting.put(None)
        for each in list(self._incomplete):
            if (stream := each.stream) is not None:
                stream.abort()
        for thread in self._threads:
            thread.join(5.0)

    def _run(self) -> None:
        while not self._stopping:
            each = self._waiting.get()
            if each is None:
                return
            try:
                self._serve(each)
            except OSError as error:  # a full disk
                log.warning("%s: its output cannot be copied (%s); trying again", each.key, error)
                clock.sleep(_STORE_EVERY)
                self._waiting.put(each)

    def _serve(self, each: PodLog) -> None:
        """Copy a log to its end, or give its turn to another one."""
        each.restore()
        if each.complete or self._copied(each):
            each.end()
            self._incomplete.discard(each)
            self._over(each)

    def _copied(self, each: PodLog) -> bool:
        """Return whether a log was copied to its end."""
        retry, failures, unread = Backoff(_FIRST_RETRY, _LONGEST_RETRY), 0, 0.0
        while not self._stopping:
            ended = each.ended.is_set()
            try:
                each.copy(self._api, _ANSWER if ended else self._turn(), follow=not ended)
                each.followed, failures = True, 0
                if ended:
                    return True
            except (RefusedError, NoLogError) as error:
                failures += 1
                if ended and (each.followed or failures >= _LAST_TRIES):
                    return self._end_unread(each, error)
            except UnreachableError as error:
                each.followed, failures = False, failures + 1
                unread = (unread or clock.steady()) if ended and self._reachable() else 0.0
                if unread and clock.steady() - unread > self._rest:
                    return self._end_unread(each, error)
            if not self._waiting.empty() and not each.ended.is_set():
                self._waiting.put(each)
                return False
            if failures:
                clock.sleep(retry.next())
            else:
                each.ended.wait(retry.next())
        return False

    def _turn(self) -> float:
        return _QUIET if self._waiting.empty() else _TURN

    def _end_unread(self, each: PodLog, error: Exception) -> bool:
        """Give up the rest of a log, and say so in it, unless it was followed to the end of what there was."""
        if not each.followed:
            log.warning("%s: the rest of its log cannot be read: %s", each.key, error)
            each.note(UNREAD)
        return True
