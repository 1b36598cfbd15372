"""Commands beside tasks, as channels, and the calls about those of users. Used by ``app`` and ``task_exec``."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from contextlib import suppress

from flask import Flask

from grass.errors import GrassError, InputError
from grass.node_config import NodeHome
from grass.wire.calls import ExecInput, NoContent
from grass.wire.channel_views import ExecOutput
from grass.wire.keys import AttemptKey
from grass.wire.membership_api import check_arguments
from grass.wire.node_api import EXEC, NOTHING, RESIZE
from node.api.channels import ABANDONED, GLANCE, LONGEST_POLL, MOST_WAITING, Channel, Channels, Owner
from node.api.routes import add, add_channels, body
from node.runtime.kind import Execution, Stream
from node.runtime.registry import execute

MOST_SESSIONS = 32
_USUAL_SIZE = 24, 80
"""Rows and columns."""


class Command(Channel[Stream]):
    """One command.

    ``abandoned``, ``poll``: as for ``Channel``. ``on_end`` is called, in a thread, when the command has ended.
    """

    COUNTS_BYTES = True

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
        pieces, following, over = self.read_after(after)
        chunks = tuple((stream, data or b"") for stream, data in pieces)
        return ExecOutput(chunks, following, self._code if over else None, 0.0)

    def give(self, asked: ExecInput) -> int:
        """Return how many bytes were taken; send the rest again. The input is closed if all were taken of the last."""
        data = asked.data
        with self._feeding:
            if self._closed:
                return len(data)
            known = 0 if asked.at is None else min(len(data), max(0, self._fed - asked.at))
            taken = known + (self._execution.write(data[known:]) if data[known:] else 0)
            self._fed += taken - known
            if asked.end and taken == len(data):
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

    def _move(self) -> bool:
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting < MOST_WAITING or self._ending, GLANCE):
                return True
        with suppress(GrassError):  # the container engine does not answer any more
            if self._pump():
                return True
            self._code = self._execution.code()
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


def add_exec(app: Flask, config: NodeHome, abandoned: float) -> Channels[Owner, Command]:
    """Add the calls to the application. Return what they open."""
    sessions: Channels[Owner, Command] = Channels("session", MOST_SESSIONS)

    def start() -> str:
        asked = body(EXEC.open)
        key = AttemptKey.parse(asked.key)
        check_arguments(asked.argv)
        size = _size(asked.rows, asked.cols) if asked.tty else None
        command = Command(execute(config, asked.key, asked.argv, size), abandoned)
        return sessions.add(Owner(asked.user, key.job_id, str(key.task)), command)

    def resize(name: str, **owner: str) -> NoContent:
        command = sessions.get(Owner(**owner), name)
        asked = body(RESIZE)
        command.resize(*_size(asked.rows, asked.cols))
        return NOTHING

    add_channels(app, EXEC, sessions, Owner, start, Command.output, Command.give)
    add(app, RESIZE, resize)
    return sessions


def _size(rows: int | None, columns: int | None) -> tuple[int, int]:
    size = _USUAL_SIZE[0] if rows is None else rows, _USUAL_SIZE[1] if columns is None else columns
    if not all(0 < each < 10_000 for each in size):
        raise InputError("rows, cols: must be numbers from 1 to 9999")
    return size
