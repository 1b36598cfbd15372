"""The entries of the shepherd's journal, and the one place that knows the order of their fields.

In the file, an entry is a JSON list: its word, then its fields. A shepherd of a neighbouring version reads it. So a
field that is new goes to the end and has a default, and fields beyond those known here are ignored; so are entries
with another word. Used by ``endings``, ``journal`` and ``shepherd``.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import NamedTuple

from grass.model.exhaustive import assert_never
from node.runtime import frames
from node.runtime.attempts import Attempt
from node.runtime.frames import Message, WireReason
from node.runtime.shepherd_messages import Spent


class LifeEntry(NamedTuple):
    """A shepherd began to write."""

    boot_id: str
    guard: int
    """Pid of its parent."""


class IntentEntry(NamedTuple):
    """An attempt is about to be spawned."""

    key: str


class LimitsEntry(NamedTuple):
    """The control group of an attempt, and its limits. Written before it counts as spawned, if it has a group."""

    key: str
    group: str
    memory: int
    cpu: int


class SpawnEntry(NamedTuple):
    """An attempt was spawned. ``began`` and ``returned`` are steady, ``started`` is wall time."""

    key: str
    pid: int
    began: float
    returned: float
    started: float | None
    launch: str
    stop_signal: int = signal.SIGTERM.value


class StopEntry(NamedTuple):
    """An attempt was asked to stop."""

    key: str
    kill_at: float | None
    reason: WireReason | None


class MainEndEntry(NamedTuple):
    """The first process of an attempt ended, at this wall time. Written before that process is reaped."""

    key: str
    code: int | None
    signal: int | None
    ended: float


class EndEntry(NamedTuple):
    """An attempt has ended, at this wall time."""

    key: str
    code: int | None
    signal: int | None
    reason: WireReason | None
    ended: float
    sizes: dict[str, int] | None
    spent: Spent | None = None


class ForgetEntry(NamedTuple):
    """Attempts were forgotten."""

    keys: list[str]


AttemptEntry = IntentEntry | LimitsEntry | SpawnEntry | StopEntry | MainEndEntry | EndEntry
"""What is said of one attempt."""
Entry = LifeEntry | AttemptEntry | ForgetEntry

_KINDS: dict[str, type[Entry]] = {
    "life": LifeEntry,
    "i": IntentEntry,
    "l": LimitsEntry,
    "s": SpawnEntry,
    "k": StopEntry,
    "m": MainEndEntry,
    "e": EndEntry,
    "f": ForgetEntry,
}
_WORDS: dict[type[Entry], str] = {kind: word for word, kind in _KINDS.items()}


def pack(entry: Entry) -> bytes:
    """Return an entry as one line."""
    return frames.pack([_WORDS[type(entry)], *entry])


def unpack(message: Message) -> Entry | None:
    """Return an entry that was read; None: a word that is not known here, or a malformed entry."""
    try:
        match frames.unpacked(message, _KINDS):
            case EndEntry(str()) as entry if entry.spent:
                return entry._replace(spent=frames.filled(Spent, entry.spent))
            case (
                LifeEntry(str(), int())
                | IntentEntry(str())
                | LimitsEntry(str(), str(), int(), int())
                | SpawnEntry(str(), int())
                | StopEntry(str())
                | MainEndEntry(str())
                | EndEntry(str())
                | ForgetEntry(list())
            ) as entry:
                return entry
            case _:
                return None
    except TypeError:
        return None


def spawn_entries(attempt: Attempt) -> Iterator[LimitsEntry | SpawnEntry]:
    """Yield what is written of an attempt that was spawned."""
    assert attempt.pid is not None
    if attempt.group:
        yield LimitsEntry(attempt.key, attempt.group, attempt.memory, attempt.cpu)
    yield SpawnEntry(
        attempt.key,
        attempt.pid,
        attempt.began,
        attempt.returned,
        attempt.started,
        attempt.launch,
        int(attempt.stop_signal),
    )


def stop_entry(attempt: Attempt) -> StopEntry:
    return StopEntry(attempt.key, attempt.kill_at, attempt.reason)


def main_end_entry(attempt: Attempt) -> MainEndEntry:
    assert attempt.main_ended is not None
    return MainEndEntry(attempt.key, attempt.code, attempt.signal, attempt.main_ended)


def end_entry(attempt: Attempt) -> EndEntry:
    assert attempt.ended is not None
    return EndEntry(
        key=attempt.key,
        code=attempt.code,
        signal=attempt.signal,
        reason=attempt.reason,
        ended=attempt.ended,
        sizes=attempt.sizes,
        spent=attempt.spent,
    )


def attempt_history(attempt: Attempt) -> Iterator[AttemptEntry]:
    """Yield the entries from which ``apply_entry`` makes the same attempt again."""
    if attempt.pid is not None:
        yield from spawn_entries(attempt)
    if attempt.stopping:
        yield stop_entry(attempt)
    if attempt.main_ended is not None:
        yield main_end_entry(attempt)
    if attempt.ended is not None:
        yield end_entry(attempt)


def apply_entry(attempt: Attempt, entry: AttemptEntry) -> None:
    match entry:
        case IntentEntry():
            pass
        case LimitsEntry():
            attempt.group, attempt.memory, attempt.cpu = entry.group, entry.memory, entry.cpu
        case SpawnEntry():
            attempt.pid, attempt.launch, attempt.stop_signal = entry.pid, entry.launch, entry.stop_signal
            attempt.began, attempt.returned, attempt.started = entry.began, entry.returned, entry.started
        case StopEntry():
            attempt.stopping, attempt.kill_at, attempt.reason = True, entry.kill_at, entry.reason
        case MainEndEntry():
            attempt.code, attempt.signal, attempt.main_ended = entry.code, entry.signal, entry.ended
        case EndEntry():
            attempt.code, attempt.signal, attempt.reason = entry.code, entry.signal, entry.reason
            attempt.ended, attempt.sizes, attempt.spent = entry.ended, entry.sizes, entry.spent
        case _:
            assert_never(entry)
