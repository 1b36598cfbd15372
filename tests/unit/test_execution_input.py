"""Input of a command beside a task: a request whose reply was lost is sent again, and writes nothing twice."""

from __future__ import annotations

from typing import Any

from grass.api.execution import Execution
from grass.wire.codec import builtins
from grass.wire.node_api import EXEC
from tests.support.answers import Answers


class Lossy(Answers):
    """A transport that carries out each request for input twice, as when a reply is lost. It takes 5 bytes at most."""

    def __init__(self) -> None:
        self.written = b""
        self.ended = 0

    def call(self, _: str, path: str, content: Any = None, **__: Any) -> object:
        if not path.endswith("/input"):
            return {"id": "1", "node": "n1", "attempt": 1}
        asked = EXEC.input.asked.convert(content)
        for _ in range(2):
            known = min(len(asked.data), max(0, len(self.written) - (asked.at or 0))) if asked.at is not None else 0
            new = asked.data[known : 5 + known]
            self.written += new
            taken = known + len(new)
            self.ended += asked.end and taken == len(asked.data)
        return builtins({"taken": taken})


def test_input_whose_reply_was_lost_is_written_once() -> None:
    line: Any = Lossy()
    execution = Execution(line, "/v1/jobs/j/tasks/w.0/exec", ["cat"])
    execution.send(b"0123456789abc")
    execution.send(b"def", end=True)
    assert line.written == b"0123456789abcdef" and line.ended
