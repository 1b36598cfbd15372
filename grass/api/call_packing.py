"""Function calls as text for tasks. Does no I/O. Used by ``executor`` and ``call_job``.

A task gets its calls in ``GRASS_ENTRY`` and prints its results, so nothing needs a shared file system. Each call is
pickled by itself, so that one that cannot be pickled, or cannot be unpickled in the task, fails alone. A function, and
an argument that several calls share, is sent once per task.
"""

from __future__ import annotations

import inspect
import io
import pickle
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import cloudpickle

from grass.errors import InputError

MOST_ENTRY = 120_000
"""Characters of the calls of one task: Linux refuses longer variables."""
MOST_VALUE = 256 << 20
"""Bytes after compression of a function, or of what one call has of arguments, that travels in a file."""
_LARGE = 80_000
"""Characters from which on a value travels in a file, if it may; smaller ones where they would not fit otherwise."""
_SMALLEST = 4096
"""Bytes of the smallest value that does."""
MOST_JOB = 700_000
"""Characters of the calls of one job: a submission has at most 1 MiB."""
_SMALL = (int, float, bool, type(None))
"""Types of arguments that are never worth sharing. pickle writes them as cloudpickle does, in a tenth of the time."""


class Call(NamedTuple):
    """One call of a function by an executor.

    ``number``: its position among the calls, by which its result is known.
    """

    number: int
    function: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]  # Any: the keyword arguments of a user's function


Data = bytes | tuple[str, str]
"""A pickled value, or the folder and the name of the file that has it, compressed."""


class PackedTask(NamedTuple):
    """The text that one task gets, with the numbers of its calls.

    ``text``: the calls of one task; ``numbers``: which they are, in the order in which it runs them.
    """

    text: str
    numbers: tuple[int, ...]


class Packed(NamedTuple):
    """Calls as tasks, and the calls that cannot be sent.

    ``tasks``: of the calls that can be sent; ``refused``: the error of each other call, by its number. ``files``: name
    → content of the files that the tasks need.
    """

    tasks: list[PackedTask]
    refused: dict[int, InputError]
    files: dict[str, bytes]


class _PickledCall(NamedTuple):
    """A call as bytes. ``shared``: the numbers of the shared arguments that it refers to."""

    number: int
    function: Data
    arguments: Data
    shared: frozenset[int]


class Packer:
    """Packs calls. ``key``: for the codes of their results. ``path``: folders that tasks add to ``sys.path``.

    ``folder``: of the share, for files with large values; empty: there is none, and calls with such values are refused.
    """

    def __init__(self, key: bytes, path: Sequence[str] = (), folder: str = "") -> None:
        self._key = key
        self._path = list(path)
        self._folder = folder

    def tasks(self, calls: Sequence[Call], count: int) -> Packed:
        """Divide the calls among ``count`` tasks; more, if the calls of a task are too large."""
        pickled, inline, refused = _pickled(calls)
        files: dict[str, bytes] = {}
        shared: list[Data] = list(inline)
        if self._folder:
            pickled = self._in_files(pickled, shared, files)
        tasks: list[PackedTask] = []
        large = {call.number: size for call in pickled if (size := self._characters(call, shared)) > MOST_ENTRY}
        fitting = [call for call in pickled if call.number not in large]
        most = MOST_VALUE if self._folder else MOST_ENTRY
        refused |= {call.number: _too_large(call, large[call.number], most) for call in calls if call.number in large}
        waiting = list(reversed(chunks(fitting, count)))
        while waiting:
            group = waiting.pop()
            text = self._text(group, shared)
            if len(text) <= MOST_ENTRY:
                tasks.append(PackedTask(text, tuple(call.number for call in group)))
            else:
                half = len(group) // 2
                waiting += [group[half:], group[:half]]
        return Packed(tasks, refused, files)

    def _in_files(self, calls: list[_PickledCall], shared: list[Data], files: dict[str, bytes]) -> list[_PickledCall]:
        """Return the calls with large values in files, those of ``shared`` included."""
        known: dict[Data, Data] = {}

        def moved(data: Data, least: int) -> Data:
            if not isinstance(data, bytes) or len(data) < _SMALLEST or len(data) * 4 // 3 < least:
                return data
            if data not in known or (least == 0 and known[data] == data):
                content = zlib.compress(data, 1)
                if len(content) * 4 // 3 < least or len(content) > MOST_VALUE:
                    known[data] = data
                else:
                    name = sha256(content).hexdigest()
                    files[name] = content
                    known[data] = (self._folder, name)
            return known[data]

        def all_moved(call: _PickledCall, least: int) -> _PickledCall:
            for number in call.shared:
                shared[number] = moved(shared[number], least)
            return call._replace(function=moved(call.function, least), arguments=moved(call.arguments, least))

        found = [all_moved(call, _LARGE) for call in calls]
        return [all_moved(call, 0) if self._characters(call, shared) > MOST_ENTRY else call for call in found]

    def _characters(self, call: _PickledCall, shared: Sequence[Data]) -> int:
        """Return how many characters a call needs in a task of its own. 0: it is far smaller than what fits."""
        parts = [call.function, call.arguments, *(shared[number] for number in call.shared)]
        size = sum(len(part) for part in parts if isinstance(part, bytes))
        if size > 2 * MOST_VALUE:
            return size
        return len(self._text([call], shared)) if size > MOST_ENTRY // 2 else 0

    def _text(self, calls: Sequence[_PickledCall], shared: Sequence[Data]) -> str:
        functions = {function: place for place, function in enumerate(dict.fromkeys(call.function for call in calls))}
        used = {number: shared[number] for number in sorted(frozenset().union(*(call.shared for call in calls)))}
        short = [(call.number, functions[call.function], call.arguments) for call in calls]
        data = pickle.dumps((self._key, self._path, list(functions), used, short))
        return b64encode(zlib.compress(data, 1)).decode()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # cloudpickle has no types
    """Pickles a call, without the arguments that other calls have, too."""

    def __init__(self, file: io.BytesIO, places: dict[int, int]) -> None:
        super().__init__(file)
        self._places = places
        self.used: set[int] = set()

    def persistent_id(self, value: object) -> int | None:
        place = self._places.get(id(value))
        if place is not None:
            self.used.add(place)
        return place


def chunks(calls: Sequence[_PickledCall], count: int) -> list[Sequence[_PickledCall]]:
    """Return the calls in at most ``count`` groups of nearly the same size, in their order."""
    size = -(-len(calls) // max(1, count))
    return [calls[at : at + size] for at in range(0, len(calls), size)] if calls else []


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


def _pickled(calls: Sequence[Call]) -> tuple[list[_PickledCall], list[bytes], dict[int, InputError]]:
    """Return the calls as bytes, the shared arguments as bytes, and the errors of the other calls by their number."""
    places, shared = _shared(calls)
    functions: dict[int, bytes] = {}  # by id: the calls keep the functions alive
    pickled: list[_PickledCall] = []
    refused: dict[int, InputError] = {}
    for call in calls:
        try:
            if id(call.function) not in functions:
                functions[id(call.function)] = cloudpickle.dumps(call.function)
            arguments, used = _arguments(call, places)
        except Exception as error:  # noqa: BLE001 a user's object may raise anything when it is pickled
            refused[call.number] = _unpicklable(error)
        else:
            pickled.append(_PickledCall(call.number, functions[id(call.function)], arguments, used))
    return pickled, shared, refused


def _arguments(call: Call, places: dict[int, int]) -> tuple[bytes, frozenset[int]]:
    content = (call.arguments, call.named)
    if all(type(value) in _SMALL for value in (*call.arguments, *call.named.values())):
        return pickle.dumps(content), frozenset()
    if not places:
        return cloudpickle.dumps(content), frozenset()
    file = io.BytesIO()
    pickler = _Pickler(file, places)
    pickler.dump(content)
    return file.getvalue(), frozenset(pickler.used)


def _shared(calls: Sequence[Call]) -> tuple[dict[int, int], list[bytes]]:
    """Return the places of the arguments that several calls have, by their id, and these arguments as bytes.

    One that cannot be pickled is left out: each call that has it then fails with its own error.
    """
    values: dict[int, Any] = {}
    counts: Counter[int] = Counter()
    for call in calls:
        own = {id(value): value for value in (*call.arguments, *call.named.values()) if not isinstance(value, _SMALL)}
        values |= own
        counts.update(own.keys())
    places: dict[int, int] = {}
    shared: list[bytes] = []
    for identity, value in values.items():
        if counts[identity] > 1:
            try:
                data = cloudpickle.dumps(value)
            except Exception:  # noqa: BLE001, S112 said by the calls that have it
                continue
            places[identity] = len(shared)
            shared.append(data)
    return places, shared


def _unpicklable(error: Exception) -> InputError:
    refusal = InputError(f"a function or its arguments cannot be pickled: {error}")
    refusal.__cause__ = error
    return refusal


def _too_large(call: Call, characters: int, most: int) -> InputError:
    name = getattr(call.function, "__name__", type(call.function).__name__)
    path, value = max(_parts(call), key=lambda part: len(cloudpickle.dumps(part[1])))
    return InputError(
        f"{path}: the {type(value).__name__} makes a call of {name} too large: {characters // 1024} KiB after "
        f"compression, at most {most // 1024} KiB fit; write it to a file, send that with `grass data push`, and "
        'let the function read it below os.environ["GRASS_DATA"]'
    )


def _parts(call: Call) -> Iterator[tuple[str, Any]]:
    """Yield the function and the arguments of a call, each with its path: its parameter, if that is known."""
    yield "function", call.function
    try:
        bound = inspect.signature(call.function).bind(*call.arguments, **call.named)
    except (TypeError, ValueError):  # the call fails in its task, or its function is written in C
        yield from ((f"arguments[{place}]", value) for place, value in enumerate(call.arguments))
        yield from call.named.items()
    else:
        yield from bound.arguments.items()
