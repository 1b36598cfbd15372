"""A command beside a task, as a channel. Used by ``exec_routes`` and ``task_exec``."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable

from grass.errors import GrassError
from grass.wire.channel_views import ExecOutput
from node.api.channels import ABANDONED, GLANCE, LONGEST_POLL, MOST_WAITING, Channel
from node.runtime.kind import Execution, Stream


class Command(Channel[Stream]):
    """One command. Positions in its output count bytes.

    ``abandoned``, ``poll``: as for ``Channel``. ``on_end`` is called, in a thread, when the command has ended.
    """

    def __init__(
        self,
        execution: Execution,
        abandoned: float = ABANDONED,
        poll: float = LONGEST_POLL,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(abandoned, poll)
        self._execution = execution
        self._on_end = on_end
        self._fed = 0
        self._feeding = threading.Lock()
        self._handling = threading.Lock()
        self._closed = False
        self._code = 255
        self._thread.start()

    def output(self, after: int) -> ExecOutput:
        pieces, following, over = self.take(after)
        chunks = tuple((stream, data or b"") for stream, data in pieces)
        return ExecOutput(chunks, following, self._code if over else None, 0.0)

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

    @staticmethod
    def _steps(data: bytes | None) -> int:
        return len(data or b"")

    def _move(self) -> bool:
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting < MOST_WAITING or self._ending, GLANCE):
                return True
        try:
            if self._pump():
                return True
            self._code = self._execution.code()
        except GrassError:
            pass  # the container engine does not answer any more
        return False

    def _release(self) -> None:
        """End the execution. Nobody uses its descriptors meanwhile or later: others may have their numbers by then."""
        with self._feeding, self._handling:
            self._closed = True
            self._execution.end()
        self._on_end()

    def _pump(self) -> bool:
        """Collect output. Return False when the command has ended."""
        for descriptor in select.select(self._execution.descriptors(), [], [], GLANCE)[0]:
            output = self._execution.read(descriptor)
            if output is None:
                return False
            with self._changed:
                for stream, data in output:
                    if data:
                        self._put(stream, data)
        return True
