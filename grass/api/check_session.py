"""The program that measures on one node, as the client of a check talks to it: ``grass/task/node_check.py``.

It is a command beside the task that holds the node. Its text is sent along, so that nodes need no other version of it.
Used by ``check_run``.
"""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import grass.task
from grass.errors import GrassError, UndecodableError
from grass.model.beside import INSIDE
from grass.wire.codec import Form, encode

if TYPE_CHECKING:
    from grass.api.execution import Execution
    from grass.wire.checks import ProbeAnswer, ProbeRequest


class CheckFailed(Exception):
    """A node did not measure. The text says why."""


def program() -> list[str]:
    """Return the command. The task that holds the node ends with it."""
    return [*INSIDE, "python3", "-u", "-c", probe_text()]


def probe_text() -> str:
    """Return the text of the program."""
    return (Path(grass.task.__file__).parent / "node_check.py").read_text()


class CheckSession:
    """A running program. Each request is answered in order."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._said = ""
        threading.Thread(target=self._read, name="check", daemon=True).start()

    def ask(self, request: ProbeRequest, seconds: float) -> ProbeAnswer:
        """Return the answer. Raises CheckFailed if there is none within ``seconds``, or the program failed."""
        from grass.wire.checks import ProbeAnswer

        try:
            self._execution.send((encode(request) + "\n").encode())
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise CheckFailed(f"did not answer within {seconds:g} s") from None
        except GrassError as error:
            raise CheckFailed(f"cannot be reached: {error}") from error
        if line is None:
            raise CheckFailed(f"its measuring ended: {self._said.strip()[-400:] or 'it printed nothing'}")
        try:
            answer: ProbeAnswer = Form(ProbeAnswer).decode(line)
        except UndecodableError as error:
            raise CheckFailed(f"sent an answer that cannot be read: {error}") from error
        if answer.failed:
            raise CheckFailed(answer.failed)
        return answer

    def close(self) -> None:
        with suppress(GrassError, OSError):
            self._execution.close()

    def _read(self) -> None:
        rest = ""
        try:
            for stream, data in self._execution.output():
                text = data.decode("utf-8", "replace")
                if stream == "stderr":
                    self._said = (self._said + text)[-2000:]
                    continue
                *lines, rest = (rest + text).split("\n")
                for line in lines:
                    self._answers.put(line)
        except (GrassError, OSError) as error:
            self._said += str(error)
        self._answers.put(None)
