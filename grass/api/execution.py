"""The client's side of a command beside a running task. Made by ``Client.execute``; safe for several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from grass.api.channel import LARGEST_INPUT, Channel
from grass.api.transport import Transport
from grass.wire.calls import Exec, ExecInput, ExecSize
from grass.wire.channel_views import ExecOutput, ExecStarted
from grass.wire.codec import Form
from grass.wire.node_api import EXEC

_STARTED: Form[ExecStarted] = Form(ExecStarted)


class Execution(Channel[ExecStarted, ExecOutput]):
    """A command beside a task, as its caller sees it.

    ``code``: the exit code, once ``output`` has ended. ``close`` ends the command, if it has not ended.
    """

    def __init__(
        self, transport: Transport, path: str, argv: Sequence[str], size: tuple[int, int] | None = None
    ) -> None:
        """``size``: rows and columns of a terminal; None: no terminal, and separate stdout and stderr."""
        rows, columns = size or (None, None)
        wanted = Exec(argv=list(argv), tty=size is not None, rows=rows, cols=columns)
        super().__init__(transport, path, wanted, _STARTED, EXEC)
        self.node = self.opened.node
        self.code: int | None = None
        self._sent = 0
        self._sending = threading.Lock()

    def output(self) -> Iterator[tuple[str, bytes]]:
        """Yield ``("stdout" | "stderr", bytes)`` until the command has ended."""
        for answer in self.answers():
            yield from answer.chunks
            self.code = answer.code
            if self.code is not None:
                return

    def send(self, data: bytes, *, end: bool = False) -> None:
        """Send data to its standard input. ``end``: close the input afterwards."""
        with self._sending:
            while True:
                piece = data[:LARGEST_INPUT]
                last = end and len(piece) == len(data)
                taken = self.give(ExecInput(data=piece, end=last, at=self._sent))
                self._sent += taken
                data = data[taken:]
                if not data and (last or not end):
                    return

    def resize(self, rows: int, columns: int) -> None:
        self.post("resize", ExecSize(rows=rows, cols=columns))
