"""A session of a command beside a task. It keeps output until that is fetched, and ends when nobody polls it.

Used by ``app``, ``exec_routes`` and ``task_exec``.
"""

from __future__ import annotations

import base64
import select
import threading
from collections.abc import Callable

from grass import clock
from grass.errors import GrassError
from node.runtime.kind import Execution

MOST_WAITING = 1 << 20
"""Most bytes of output that are kept; the command is blocked until some are fetched."""
ABANDONED = 60.0
"""Seconds without a poll after which a session ends."""
LONGEST_POLL = 20.0
_GLANCE = 0.5


class Session:
    """One command. ``after`` and ``next`` count bytes of output; bytes before ``after`` were received and are
    dropped.

    ``abandoned``: seconds without a poll after which it ends; a poll waits for ``poll`` seconds. ``on_end`` is called,
    in a thread, when the command has ended.
    """

    def __init__(
        self,
        execution: Execution,
        abandoned: float = ABANDONED,
        poll: float = LONGEST_POLL,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
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
