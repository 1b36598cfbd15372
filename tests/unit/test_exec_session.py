"""A session of a command beside a task: its end meets what others do with the command."""

from __future__ import annotations

import os
import threading

from grass.wire.calls import ExecInput
from node.api.commands import Command
from node.runtime.kind import Output
from tests.support.waiting import wait_until


class EndsDuringAWrite:
    """An execution whose command ends while input is written to it. ``calls``: in their order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._writing = threading.Event()
        self._ready, other = os.pipe()
        os.close(other)

    @property
    def pid(self) -> int | None:
        return None

    def descriptors(self) -> list[int]:
        return [self._ready]

    def read(self, descriptor: int) -> Output | None:
        self._writing.wait(10)
        return None

    def write(self, data: bytes) -> int:
        self._writing.set()
        threading.Event().wait(0.2)
        self.calls.append("write")
        return len(data)

    def end_input(self) -> None:
        self.calls.append("end_input")

    def resize(self, rows: int, columns: int) -> None:
        self.calls.append("resize")

    def signal(self, number: int) -> None:
        self.calls.append("signal")

    def code(self) -> int:
        return 0

    def end(self) -> None:
        os.close(self._ready)
        self.calls.append("end")


def test_the_descriptors_of_a_command_are_closed_after_the_input_that_is_being_written() -> None:
    execution = EndsDuringAWrite()
    session = Command(execution)
    assert session.give(ExecInput(data=b"data", end=True)) == 4
    wait_until(lambda: session.over, 10, "the end of the session")
    session.signal(2)
    session.resize(1, 1)
    assert session.give(ExecInput(data=b"more", end=True)) == 4
    assert execution.calls == ["write", "end_input", "end"]
