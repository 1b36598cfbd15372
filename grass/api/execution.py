"""The client's side of a command beside a running task. Made by ``ApiClient.execute``; safe for several threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grass.api.channel import LARGEST_INPUT, Channel
from grass.api.transport import Transport
from grass.wire.calls import Exec, ExecInput, ExecSize
from grass.wire.channel_views import ExecOutput, ExecStarted
from grass.wire.codec import Form

_STARTED: Form[ExecStarted] = Form(ExecStarted)
_OUTPUT: Form[ExecOutput] = Form(ExecOutput)


class Execution:
    """A command beside a task, as its caller sees it.

    ``code``: the exit code, once ``output`` has ended.
    """

    def __init__(
        self, transport: Transport, path: str, argv: Sequence[str], size: tuple[int, int] | None = None
    ) -> None:
        """``size``: rows and columns of a terminal; None: no terminal, and separate stdout and stderr."""
        rows, columns = size or (None, None)
        wanted = Exec(argv=list(argv), tty=size is not None, rows=rows, cols=columns)
        self._channel = Channel(transport, path, wanted, _STARTED, _OUTPUT)
        self.node = self._channel.opened.node
        self.code: int | None = None

    def output(self) -> Iterator[tuple[str, bytes]]:
        """Yield ``("stdout" | "stderr", bytes)`` until the command has ended."""
        for answer in self._channel.output():
            yield from answer.chunks
            self.code = answer.code
            if self.code is not None:
                return

    def send(self, data: bytes, *, end: bool = False) -> None:
        """Send data to its standard input. ``end``: close the input afterwards."""
        while True:
            piece = data[:LARGEST_INPUT]
            last = end and len(piece) == len(data)
            data = data[self._channel.give(ExecInput(data=piece, end=last)) :]
            if not data and (last or not end):
                return

    def resize(self, rows: int, columns: int) -> None:
        self._channel.resize(ExecSize(rows=rows, cols=columns))

    def close(self) -> None:
        """End the command, if it has not ended."""
        self._channel.close()
