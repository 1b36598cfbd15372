"""The process runtime: a client of the shepherd, for the node-agent's (or any) single-threaded loop.

It also watches over the shepherd. One that does not answer is reported (``trouble``) and then killed: its guard starts
another one, which adopts the tasks. Used by ``kind``, ``node.agent.folders``, ``node.api.app`` and
``node.runtime.docker.starts``.
"""

from __future__ import annotations

import logging
import os
import select
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from grass import clock
from grass.backoff import Backoff
from grass.errors import UnreachableError
from grass.model.reasons import Reason, ReasonCode
from node.runtime.frames import READ, Lines, Message, Outbox, pack
from node.runtime.process.hung_shepherd import continue_guard, guard_of, kill_hung_shepherd, peer_pid
from node.runtime.process.silence import Silence
from node.runtime.protocol import Launch, Listed, Observed, RuntimeEvent, Spent, Start, Stop
from node.runtime.spawn import CannotStartError

_FIRST_RETRY, _LONGEST_RETRY = 0.02, 0.5

log = logging.getLogger(__name__)


class Patience(NamedTuple):
    """Limits for a silent shepherd, in seconds: when to ask it, when to report it, when to kill it.

    A shepherd waits only for its disk, which may stall. Killing it harms no task, so the last limit may be short.
    """

    ask: float = 2.5
    name: float = 10.0
    kill: float = 20.0


PATIENCE = Patience()


class ProcessRuntime:
    """Connects and reconnects by itself. While there is no connection, commands are lost (see protocol.py)."""

    def __init__(self, path: Path, patience: Patience = PATIENCE) -> None:
        self._path = str(path)
        self._patience = patience
        self._silence = Silence(patience.ask, clock.steady())
        self._poll = select.epoll()
        self._connection: socket.socket | None = None
        self._outbox: Outbox | None = None
        self._lines = Lines()
        self._launches: dict[str, Launch] = {}
        self._sent_launches: set[str] = set()
        """Keys of launches that this connection has sent."""
        self._unsent: list[Message] = []
        """Goes with the next messages: every message wakes the shepherd, which may be starting a task."""
        self._has_unknown_launches = False
        """The shepherd has waiting attempts, and so launches that an earlier connection sent."""
        self._retry = Backoff(_FIRST_RETRY, _LONGEST_RETRY)
        self._due: float | None = 0.0
        self._guard: int | None = None
        """Descriptor of the process that starts the next shepherd when the present one ends."""

    def define(self, launches: dict[str, Launch]) -> None:
        """Define launches. A new one is sent with its first start; one that the shepherd knows is replaced at once."""
        self._launches.update(launches)
        known = set(launches) if self._has_unknown_launches else self._sent_launches.intersection(launches)
        self._sent_launches.difference_update(launches)
        if known and self._connection is not None:
            self._sent_launches |= known
            self._send([message for name in known for message in _definition(name, self._launches[name])])

    def drop(self, launches: Iterable[str]) -> None:
        gone = [name for name in launches if self._launches.pop(name, None)]
        self._sent_launches.difference_update(gone)
        if gone:
            self._unsent.append(["drop", gone])

    def start(self, starts: list[Start]) -> None:
        fresh = {start.launch for start in starts} - self._sent_launches
        messages = [message for name in fresh for message in _definition(name, self._launches[name])]
        if self._connection is not None:
            self._sent_launches |= fresh
        self._send([*messages, ["start", [[start.key, start.launch, start.env] for start in starts]]])

    def stop(self, stops: list[Stop]) -> None:
        self._send([["stop", [[key, grace, reason and reason.to_wire()] for key, grace, reason in stops]]])

    def forget(self, keys: list[str]) -> None:
        self._send([["forget", keys]])

    def receive(self) -> list[RuntimeEvent]:
        if self._connection is None and self._due is not None and clock.steady() >= self._due:
            self._connect()
        happened = self._received()
        self._watch_over(clock.steady())
        return happened

    def _received(self) -> list[RuntimeEvent]:
        if self._connection is None:
            return []
        try:
            assert self._outbox is not None
            self._outbox.send()
            self._arm()
            data = self._connection.recv(READ)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._disconnect()
            return []
        self._silence.received()
        happened: list[RuntimeEvent] = []
        for message in self._lines.feed(data):
            match message:
                case ["list", attempts]:
                    self._retry.reset()
                    self._forget_guard()
                    self._guard = guard_of(self._connection)
                    listed = [_observed(attempt) for attempt in attempts]
                    self._has_unknown_launches = any(each.pid is None and each.ended is None for each in listed)
                    happened.append(Listed(listed))
                case ["events", attempts]:
                    happened += [_observed(attempt) for attempt in attempts]
        return happened

    def fileno(self) -> int:
        return self._poll.fileno()

    def due(self) -> float | None:
        return self._silence.due if self._due is None else min(self._due, self._silence.due)

    def trouble(self) -> Reason | None:
        if self._silence.total < self._patience.name:
            return None
        message = "the shepherd of this node does not answer; it is restarted, and running tasks continue"
        return Reason(ReasonCode.RUNTIME, message)

    def roots(self) -> list[int]:
        connection = self._connection
        try:
            return [peer_pid(connection)] if connection is not None else []
        except OSError:  # closed meanwhile
            return []

    def close(self) -> None:
        self._disconnect()
        self._poll.close()
        self._forget_guard()

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)  # before connecting: the queue of a hung shepherd may be full
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            self._due = clock.steady() + self._retry.next()
            return
        self._silence.connected()
        self._connection, self._outbox = connection, Outbox(connection)
        self._lines = Lines()
        self._sent_launches.clear()
        self._unsent.clear()
        self._due = None
        self._poll.register(connection.fileno(), select.EPOLLIN)
        self._send([["watch"]])

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._poll.unregister(self._connection.fileno())
            self._connection.close()
        self._connection = self._outbox = None
        self._due = clock.steady() + self._retry.next()

    def _watch_over(self, now: float) -> None:
        if self._silence.check(now):
            self._send([["ping"]])
        if self._silence.of_peer >= self._patience.kill and self._connection is not None:
            if kill_hung_shepherd(self._connection):
                log.error(
                    "the shepherd did not answer for %g s; it is killed, and its guard restarts it",
                    self._silence.of_peer,
                )
            self._disconnect()
        elif self._silence.total >= self._patience.kill and self._connection is None and self._guard is not None:
            log.error(
                "the shepherd is gone for %g s, and its guard started no other; it is continued", self._silence.total
            )
            continue_guard(self._guard)
            self._forget_guard()

    def _forget_guard(self) -> None:
        if self._guard is not None:
            os.close(self._guard)
        self._guard = None

    def _send(self, messages: list[Message]) -> None:
        if self._outbox is None:
            return
        unsent, self._unsent = self._unsent, []
        try:
            self._outbox.send(b"".join(pack(message) for message in (*unsent, *messages)))
            self._arm()
        except OSError:
            self._disconnect()

    def _arm(self) -> None:
        """Watch for writability, too, while something waits to be sent."""
        assert self._connection is not None and self._outbox is not None
        wanted = select.EPOLLIN | (select.EPOLLOUT if len(self._outbox) else 0)
        self._poll.modify(self._connection.fileno(), wanted)


def _definition(name: str, launch: Launch) -> list[Message]:
    """Return the messages that define a launch: the fields that the shepherd uses. One of an earlier version takes no
    limits, which therefore have a message of their own."""
    owner: list[object] = (
        [launch.user, launch.awaited] if launch.user else []
    )  # a shepherd of an earlier version isolates nobody
    if launch.user and launch.read_only_data:
        owner.append(True)
    defined = ["launch", name, launch.argv, launch.env, launch.cwd, launch.grace, launch.width, *owner]
    return [defined, ["limits", name, launch.cpu, launch.memory]] if launch.user else [defined]


def _observed(attempt: Message) -> Observed:
    key, pid, started, since, stopping, ended, code, number, reason, sizes, *rest = attempt
    spent = Spent(*rest[0]) if rest and rest[0] else None  # a shepherd of an earlier version sends none
    why = Reason.from_wire(reason) if reason is not None else None
    return Observed(key, pid, started, since, stopping, ended, code, number, why, sizes, spent)


def ask(path: Path, *message: object, seconds: float = 5.0) -> list[Observed]:
    """Send one request and wait for the list that answers it: ``ask(path, "list")``. For programs without a loop.

    Raises UnreachableError.
    """
    return [_observed(attempt) for attempt in _answer(path, message, ("list",), seconds)[1]]


def ask_account(path: Path, key: str, user: str, seconds: float = 20.0) -> int:
    """Have the shepherd give a scratch folder for attempt ``key`` to the account of a user; return the account's id.

    Raises UnreachableError, CannotStartError.
    """
    match _answer(path, ("give", key, user), ("account", "failed"), seconds):
        case ["account", int(uid)]:
            return uid
        case ["failed", int(code), str(text)]:
            raise CannotStartError(code, text)
        case other:
            raise UnreachableError(f"the shepherd at {path} gave a strange answer: {other!r}")


def _answer(path: Path, message: Sequence[object], words: Sequence[str], seconds: float) -> Message:
    """Send one request and return the first message that begins with one of ``words``. Raises UnreachableError."""
    lines = Lines()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path))
            connection.sendall(pack(message))
            while data := connection.recv(READ):
                for reply in lines.feed(data):
                    if reply[0] in words:
                        return reply
    except (OSError, ValueError) as error:
        raise UnreachableError(f"the shepherd does not answer at {path}: {error}") from error
    raise UnreachableError(f"the shepherd at {path} closed the connection")
