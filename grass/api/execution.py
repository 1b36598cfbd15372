"""The client's side of a command beside a running task. Made by ``ApiClient.execute``; safe for several threads."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from grass import clock
from grass.api.transport import Transport, with_query

_LARGEST_INPUT = 32 * 1024
_NODE_SECONDS, _OUTPUT_SECONDS = 10.0, 30.0
"""Seconds that the master waits for an answer of the task's node, and for output."""


class Execution:
    """A command beside a task, as its caller sees it.

    ``code``: the exit code, once ``output`` has ended.
    """

    def __init__(
        self, transport: Transport, path: str, argv: Sequence[str], size: tuple[int, int] | None = None
    ) -> None:
        """``size``: rows and columns of a terminal; None: no terminal, and separate stdout and stderr."""
        self._transport = transport
        body: dict[str, object] = {"argv": list(argv)}
        if size is not None:
            body |= {"tty": True, "rows": size[0], "cols": size[1]}
        opened = transport.call("POST", path, body, wait=_NODE_SECONDS)
        self._path = f"{path}/{quote(opened['id'], safe='')}"
        self.node: str = opened["node"]
        self.code: int | None = None

    def output(self) -> Iterator[tuple[str, bytes]]:
        """Yield ``("stdout" | "stderr", bytes)`` until the command has ended."""
        after = 0
        while self.code is None:
            target = with_query(f"{self._path}/output", {"after": after})
            answer = self._transport.call("GET", target, wait=_OUTPUT_SECONDS)
            for stream, text in answer["chunks"]:
                yield stream, b64decode(text)
            after, self.code = answer["next"], answer["code"]
            if self.code is None:
                clock.sleep(answer["pause"])

    def send(self, data: bytes, *, end: bool = False) -> None:
        """Send data to its standard input. ``end``: close the input afterwards."""
        while True:
            piece = data[:_LARGEST_INPUT]
            last = end and len(piece) == len(data)
            body = {"data": b64encode(piece).decode(), "end": last}
            taken = self._transport.call("POST", f"{self._path}/input", body, wait=_NODE_SECONDS)
            data = data[taken["taken"] :]
            if not data and (last or not end):
                return

    def resize(self, rows: int, columns: int) -> None:
        self._transport.call("POST", f"{self._path}/resize", {"rows": rows, "cols": columns}, wait=_NODE_SECONDS)

    def close(self) -> None:
        """End the command, if it has not ended."""
        self._transport.call("DELETE", self._path, wait=_NODE_SECONDS)
