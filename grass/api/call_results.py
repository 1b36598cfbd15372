"""What became of calls in tasks: reads the lines that ``call_program`` writes. Does no I/O. Used by ``call_job``.

To unpickle is to run code. So each line of a result carries a code made with a key that only the executor and its tasks
know, and lines without it are not results: what a function printed, or what somebody else wrote into the log. A result
or an exception that cannot be unpickled here fails alone.
"""

from __future__ import annotations

import hmac
import pickle
import signal
import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from grass.api.call_program import MARK
from grass.errors import RemoteCallError, TaskDiedError


class RemoteTraceback(Exception):
    """The cause of an exception that a function raised in a task: its traceback there, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


@dataclass(frozen=True)
class Outcome:
    """What came of a call: its result (``value``), or its exception (``error``)."""

    number: int
    value: Any = None
    error: BaseException | None = None


def outcomes(lines: Iterable[str], key: bytes, job: str = "") -> Iterator[Outcome]:
    """Yield the outcomes among lines of output of a job. Nothing is unpickled that was not made with ``key``.

    A result may have several lines. Those of an attempt that ended between them are dropped.
    """
    unfinished: dict[int, list[bytes]] = {}
    for line in lines:
        text = _with_code(line, key)
        if text is None:
            continue
        number, at, count, piece = text.split(b" ", 3)
        pieces = unfinished.setdefault(int(number), [])
        if int(at) == 0:
            pieces.clear()
        if int(at) != len(pieces):  # the beginning of this result is missing
            continue
        pieces.append(piece)
        if len(pieces) == int(count):
            del unfinished[int(number)]
            said = pickle.loads(zlib.decompress(b64decode(b"".join(pieces))))  # noqa: S301 # the code is right
            yield _outcome(int(number), said, job)


def _with_code(line: str, key: bytes) -> bytes | None:
    """Return the text of a line with the right code, otherwise None."""
    if MARK not in line:
        return None
    code, _, text = line.rpartition(MARK)[2].encode(errors="surrogateescape").partition(b" ")
    right = hmac.new(key, text, "sha256").hexdigest().encode()
    return text if hmac.compare_digest(code, right) else None


def _outcome(number: int, said: tuple[Any, ...], job: str) -> Outcome:  # Any: as the program in the task wrote it
    match said:
        case ("returned", data):
            return _returned(number, data)
        case ("raised", type_name, text, trace, data):
            return Outcome(number, error=_raised(type_name, text, trace, data))
        case ("unsendable", type_name, text, trace):
            message = f"the result cannot be sent back: {text} ({type_name})"
            return Outcome(number, error=_caused(RemoteCallError(message, type_name, trace), trace))
        case ("died", number_of_signal, exit_code):
            text = f"job {job}: {_died(number_of_signal, exit_code)}; `grass job logs {job}` shows its output"
            return Outcome(number, error=TaskDiedError(text))
        case _:
            return Outcome(number, error=RemoteCallError(f"unknown kind of result {said[0]!r}", "", ""))


def _returned(number: int, data: bytes) -> Outcome:
    try:
        return Outcome(number, pickle.loads(data))  # noqa: S301 # its line had the right code
    except BaseException as error:  # noqa: BLE001 a user's object may raise anything, even SystemExit
        name = type(error).__qualname__
        failure = RemoteCallError(f"the result cannot be unpickled here: {error} ({name})", name, "")
        failure.__cause__ = error
        return Outcome(number, error=failure)


def _raised(type_name: str, text: str, trace: str, data: bytes | None) -> BaseException:
    """Return the exception; if it cannot be pickled or unpickled, one of ours with its text."""
    error: object = None
    if data is not None:
        try:
            error = pickle.loads(data)  # noqa: S301 # its line had the right code
        except BaseException:  # noqa: BLE001 a user's class may raise anything, even SystemExit
            error = None
    if not isinstance(error, BaseException):
        error = RemoteCallError(f"{type_name}: {text}", type_name, trace)
    return _caused(error, trace)


def _caused(error: BaseException, trace: str) -> BaseException:
    if trace:
        error.__cause__ = RemoteTraceback(trace)
    return error


def _died(number_of_signal: int, exit_code: int) -> str:
    if not number_of_signal:
        return f"this call ended its process with exit code {exit_code}"
    try:
        name = signal.Signals(number_of_signal).name
    except ValueError:
        name = f"signal {number_of_signal}"
    hint = ", perhaps because the memory was used up" if number_of_signal == signal.SIGKILL else ""
    return f"{name} ended the process of this call{hint}"
