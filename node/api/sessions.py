"""Sessions of commands beside tasks. They keep output until it is fetched, and end when nobody polls them.

Used by ``app`` and ``task_exec``.
"""

from __future__ import annotations

import base64
import select
import threading
from collections.abc import Callable

from grass import clock
from grass.entropy import request_id
from grass.errors import ConflictError, GrassError, NotFoundError
from node.runtime.kind import Execution

MOST_SESSIONS = 32
MOST_WAITING = 1 << 20
"""Most bytes of output that are kept; the command is blocked until some are fetched."""
ABANDONED = 60.0
"""Seconds without a poll after which a session ends."""
LONGEST_POLL = 20.0
_GLANCE = 0.5


class Session:
    """One command. ``after`` and ``next`` count bytes of output; bytes before ``after`` were received and are
    dropped. ``on_end`` is called, in a thread, when the command has ended. ``user``: the Grass user who runs it, if it
    is not a task."""

    def __init__(
        self,
        execution: Execution,
        abandoned: float = ABANDONED,
        poll: float = LONGEST_POLL,
        on_end: Callable[[], None] = lambda: None,
        user: str = "",
    ) -> None:
        self.user = user
        self._execution = execution
        self._on_end = on_end
        self._patience = abandoned
        self._poll = poll
        self._changed = threading.Condition()
        self._chunks: list[tuple[str, bytes]] = []
        self._start = 0
        self._fed = 0
        self._feeding = threading.Lock()
        self._handling = threading.Lock()
        self._closed = False
        self._code: int | None = None
        self._asked = clock.steady()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="exec", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return self._code is not None

    @property
    def abandoned(self) -> bool:
        return clock.steady() - self._asked > self._patience

    def output(self, after: int) -> dict[str, object]:
        """Wait for more than ``after`` bytes or the end: ``{"chunks": [[stream, base64]], "next", "code"}``.

        ``code`` is set when no more output follows.
        """
        with self._changed:
            self._asked = clock.steady()
            self._drop(after)
            self._changed.wait_for(lambda: self._chunks or self.over, self._poll)
            self._asked = clock.steady()
            chunks = [[stream, base64.b64encode(data).decode()] for stream, data in self._chunks]
            return {"chunks": chunks, "next": self._start + self._waiting(), "code": self._code}

    def input(self, data: bytes, end: bool, at: int | None = None) -> int:
        """Return how many bytes were taken; send the rest again. ``end``: close the input if all were taken.

        ``at``: bytes of input before ``data``. Those that came with an earlier request are not written again.
        """
        with self._feeding:
            if self._closed:
                return len(data)
            known = 0 if at is None else min(len(data), max(0, self._fed - at))
            taken = known + (self._execution.write(data[known:]) if data[known:] else 0)
            self._fed += taken - known
            if end and taken == len(data):
                self._execution.end_input()
            return taken

    def resize(self, rows: int, columns: int) -> None:
        with self._handling:
            if not self._closed:
                self._execution.resize(rows, columns)

    def signal(self, number: int) -> None:
        with self._handling:
            if not self._closed:
                self._execution.signal(number)

    def cancel(self) -> None:
        """Have the command ended, without waiting for its end."""
        self._ending = True
        with self._changed:
            self._changed.notify_all()

    def end(self) -> None:
        """End the command, and wait up to five seconds for its thread."""
        self.cancel()
        self._thread.join(5.0)

    def _waiting(self) -> int:
        return sum(len(data) for _, data in self._chunks)

    def _drop(self, after: int) -> None:
        while self._chunks and self._start < after:
            stream, data = self._chunks[0]
            gone = min(len(data), after - self._start)
            self._start += gone
            self._chunks[0:1] = [(stream, data[gone:])] if gone < len(data) else []
        self._changed.notify_all()

    def _run(self) -> None:
        code = 255
        try:
            while not self._ending and not self.abandoned:
                with self._changed:
                    if not self._changed.wait_for(lambda: self._waiting() < MOST_WAITING or self._ending, _GLANCE):
                        continue
                if not self._pump():
                    code = self._execution.code()
                    break
        except GrassError:
            code = 255  # the container engine does not answer any more
        finally:
            self._close()
            self._on_end()
            with self._changed:
                self._code = code
                self._changed.notify_all()

    def _close(self) -> None:
        """End the execution. Nobody uses its descriptors meanwhile or later: others may have their numbers by then."""
        with self._feeding, self._handling:
            self._closed = True
            self._execution.end()

    def _pump(self) -> bool:
        """Collect output. Return False when the command has ended."""
        for descriptor in select.select(self._execution.descriptors(), [], [], _GLANCE)[0]:
            output = self._execution.read(descriptor)
            if output is None:
                return False
            with self._changed:
                self._chunks += output
                self._changed.notify_all()
        return True


class Sessions:
    """All sessions of this node.

    ``abandoned``: seconds without a poll after which a session ends; a poll waits for ``poll`` seconds. ``most``:
    sessions at once.
    """

    def __init__(self, abandoned: float = ABANDONED, most: int = MOST_SESSIONS, poll: float = LONGEST_POLL) -> None:
        self._abandoned = abandoned
        self._poll = poll
        self._most = most
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def open(
        self, execution: Execution, name: str = "", on_end: Callable[[], None] = lambda: None, user: str = ""
    ) -> str:
        """Return the name of the new session. ``name``: one that no other session has; otherwise it is made up.
        ``on_end``, ``user``: as for ``Session``."""
        with self._lock:
            for name in [name for name, each in self._sessions.items() if each.abandoned and each.over]:
                del self._sessions[name]
            if len(self._sessions) >= self._most:
                execution.end()
                on_end()
                raise ConflictError(f"this node already runs {self._most} commands beside tasks; try again in a minute")
            name = name or request_id()
            self._sessions[name] = Session(execution, self._abandoned, self._poll, on_end, user)
        return name

    def has(self, name: str) -> bool:
        with self._lock:
            return name in self._sessions

    def get(self, name: str) -> Session:
        with self._lock:
            session = self._sessions.get(name)
        if session is None:
            raise NotFoundError("no such session; it may have ended")
        return session

    def close(self, name: str) -> None:
        session = self.get(name)
        with self._lock:
            self._sessions.pop(name, None)
        session.end()

    def close_of(self, user: str) -> None:
        """Have all sessions of a Grass user ended, without waiting for their end."""
        with self._lock:
            names = [name for name, each in self._sessions.items() if each.user == user]
            ended = [self._sessions.pop(name) for name in names]
        for session in ended:
            session.cancel()
