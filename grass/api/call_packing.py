"""Function calls as text for tasks, and results as lines of their output. Does no I/O. Used by ``executor``.

A task gets its calls in ``GRASS_ENTRY`` and prints one marked line per result, so nothing needs a shared file system.
To unpickle is to run code. So each result carries a code made with a key that only the executor and its tasks know, and
lines without it are not results: what a function printed, or what somebody else wrote into the log.
"""

from __future__ import annotations

import hmac
import pickle
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import cloudpickle

from grass.errors import InputError

MARK = "\x1eGRASS-RESULT "
MOST_ENTRY = 120_000
"""Characters of the calls of one task: Linux refuses longer variables."""
MOST_JOB = 700_000
"""Characters of the calls of one job: a submission has at most 1 MiB."""

PROGRAM = r"""
import hmac, os, sys, traceback, zlib
from base64 import b64decode, b64encode
import cloudpickle, pickle
def send(number, good, value):
    text = b"%d %s" % (number, b64encode(zlib.compress(cloudpickle.dumps((good, value)), 1)))
    line = b"\n\x1eGRASS-RESULT %s %s\n" % (hmac.new(key, text, "sha256").hexdigest().encode(), text)
    while line:
        line = line[os.write(1, line):]
key, calls = pickle.loads(zlib.decompress(b64decode(os.environ["GRASS_ENTRY"])))
for number, function, arguments, named in calls:
    try:
        good, value = True, function(*arguments, **named)
    except BaseException as error:
        good, value = False, (error, traceback.format_exc())
    sys.stdout.flush()
    try:
        send(number, good, value)
    except Exception as error:
        said = "cannot be sent back: " + repr(error)
        what = "the result" if good else "its exception " + repr(value[0])
        send(number, False, (RuntimeError(what + " " + said), value[1] if not good else traceback.format_exc()))
"""
"""What a task runs. It needs Python and cloudpickle, and nothing of Grass."""


class Call(NamedTuple):
    """One call of a function by an executor.

    ``number``: its position in the job, by which its result is known.
    """

    number: int
    function: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]  # Any: the keyword arguments of a user's function


class PackedTask(NamedTuple):
    """The text that one task gets, with the numbers of its calls.

    ``text``: the calls of one task; ``numbers``: which they are.
    """

    text: str
    numbers: tuple[int, ...]


class Outcome(NamedTuple):
    """What came of a call: its result, or its exception."""

    number: int
    good: bool
    value: Any
    """The result; or the exception, and its traceback as text."""


def packed(calls: Sequence[Call], key: bytes) -> str:
    """Return the calls of one task as text. ``key``: for the codes of their results.

    Raises InputError for calls that cannot be pickled or are too large.
    """
    try:
        data = cloudpickle.dumps((key, [tuple(call) for call in calls]))
    except Exception as error:
        raise InputError(f"a function or its arguments cannot be pickled: {error}") from error
    text = b64encode(zlib.compress(data, 1)).decode()
    if len(text) > MOST_ENTRY:
        raise InputError(
            f"a call has {len(text) // 1024} KiB of code and arguments, at most {MOST_ENTRY // 1024} fit; "
            "let the function read a file (`grass data push`)"
        )
    return text


def chunks(calls: Sequence[Call], count: int) -> list[Sequence[Call]]:
    """Return the calls in at most ``count`` groups of nearly the same size, in their order."""
    size = -(-len(calls) // max(1, count))
    return [calls[at : at + size] for at in range(0, len(calls), size)]


def packed_tasks(calls: Sequence[Call], count: int, key: bytes) -> list[PackedTask]:
    """Divide the calls among ``count`` tasks; more, if the calls of a task are too large."""
    tasks: list[PackedTask] = []
    waiting = list(reversed(chunks(calls, count)))
    while waiting:
        group = waiting.pop()
        try:
            tasks.append(PackedTask(packed(group, key), tuple(call.number for call in group)))
        except InputError:
            if len(group) == 1:
                raise
            half = len(group) // 2
            waiting += [group[half:], group[:half]]
    return tasks


def jobs_of(tasks: Sequence[PackedTask]) -> Iterator[list[PackedTask]]:
    """Group tasks into jobs that are small enough to be submitted."""
    job: list[PackedTask] = []
    size = 0
    for task in tasks:
        if job and size + len(task.text) > MOST_JOB:
            yield job
            job, size = [], 0
        job.append(task)
        size += len(task.text)
    if job:
        yield job


def outcomes(lines: Iterable[str], key: bytes) -> Iterator[Outcome]:
    """Yield the outcomes among lines of output. Nothing is unpickled that was not made with ``key``."""
    for line in lines:
        if MARK in line:
            code, _, text = line.rpartition(MARK)[2].encode(errors="surrogateescape").partition(b" ")
            if hmac.compare_digest(code, hmac.new(key, text, "sha256").hexdigest().encode()):
                number, _, data = text.partition(b" ")
                good, value = pickle.loads(zlib.decompress(b64decode(data)))  # noqa: S301 # the code is right
                yield Outcome(int(number), good, value)
