"""The process runtime: a client of the shepherd, for the node-agent's (or any) single-threaded loop.

It also watches over the shepherd. One that does not answer is reported (``trouble``) and then killed: its guard starts
another one, which adopts the tasks. Used by ``kind``, ``node.agent.folders``, ``node.api.app`` and
``node.runtime.docker.starts``.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from grass.backoff import Backoff
from grass.errors import UnreachableError
from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from node.runtime.frames import READ, Lines, Outbox
from node.runtime.process.hung_shepherd import continue_guard, guard_of, kill_hung_shepherd, peer_pid
from node.runtime.process.silence import Silence
from node.runtime.protocol import Launch, Listed, Observed, RuntimeEvent, Start, Stop
from node.runtime.shepherd_messages import (
    Account,
    AttemptEvents,
    AttemptList,
    AttemptReport,
    DropLaunches,
    Failed,
    ForgetAttempts,
    GiveScratch,
    KeepMemory,
    LaunchLimits,
    LetGo,
    ListAttempts,
    NewAttempt,
    Ping,
    ProcessLaunch,
    RemoveJobs,
    RemoveScratch,
    Reply,
    Request,
    StartAttempts,
    StopAttempts,
    StopOrder,
    StopWith,
    WatchAttempts,
    pack,
    unpack_reply,
)
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
        self._keeping: set[str] = set()
        """Keys of launches that keep memory."""
        self._unsent: list[Request] = []
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
        self._keeping.update(name for name, launch in launches.items() if launch.keep)
        known = set(launches) if self._has_unknown_launches else self._sent_launches.intersection(launches)
        self._sent_launches.difference_update(launches)
        if known and self._connection is not None:
            self._sent_launches |= known
            self._send([message for name in known for message in _definition(name, self._launches[name])])

    def drop(self, launches: Iterable[str]) -> None:
        gone = [name for name in launches if self._launches.pop(name, None)]
        kept = bool(self._keeping.intersection(gone))
        self._sent_launches.difference_update(gone)
        self._keeping.difference_update(gone)
        if kept:
            self._send([DropLaunches(gone)])  # now: its memory may be large
        elif gone:
            self._unsent.append(DropLaunches(gone))

    def let_go(self, tasks: Iterable[str]) -> None:
        self._send([LetGo(list(tasks))])

    def start(self, starts: list[Start]) -> None:
        fresh = {start.launch for start in starts} - self._sent_launches
        messages = [message for name in fresh for message in _definition(name, self._launches[name])]
        if self._connection is not None:
            self._sent_launches |= fresh
        self._send([*messages, StartAttempts([NewAttempt(start.key, start.launch, start.env) for start in starts])])

    def stop(self, stops: list[Stop]) -> None:
        orders = [StopOrder(key, grace, reason.to_wire() if reason else None) for key, grace, reason in stops]
        self._send([StopAttempts(orders)])

    def forget(self, keys: list[str]) -> None:
        self._send([ForgetAttempts(keys)])

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
            match unpack_reply(message):
                case AttemptList(attempts):
                    self._retry.reset()
                    self._forget_guard()
                    self._guard = guard_of(self._connection)
                    listed = [_observed(attempt) for attempt in attempts]
                    self._has_unknown_launches = any(each.pid is None and each.ended is None for each in listed)
                    happened.append(Listed(listed))
                case AttemptEvents(attempts):
                    happened += [_observed(attempt) for attempt in attempts]
                case None:
                    log.warning("ignored an unknown message of the shepherd: %.200r", message)
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
        kept = [KeepMemory(name, self._launches[name].keep) for name in self._keeping]  # of attempts that run
        self._send([WatchAttempts(), *kept])

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._poll.unregister(self._connection.fileno())
            self._connection.close()
        self._connection = self._outbox = None
        self._due = clock.steady() + self._retry.next()

    def _watch_over(self, now: float) -> None:
        if self._silence.check(now):
            self._send([Ping()])
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

    def _send(self, messages: list[Request]) -> None:
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


def _definition(name: str, launch: Launch) -> list[Request]:
    """Return the messages that define a launch. A shepherd of an earlier version takes no limits with it, which
    therefore have a message of their own, and so have what is kept of its tasks and what stops them."""
    defined = ProcessLaunch(name, launch.argv, launch.env, launch.cwd, launch.grace, launch.width)
    kept = [KeepMemory(name, launch.keep)] if launch.keep else []
    stops = [StopWith(name, int(launch.stop_signal))] if launch.stop_signal != signal.SIGTERM else []
    if not launch.user:
        return [defined, *kept, *stops]
    owned = defined._replace(user=launch.user, awaited=launch.awaited, read_only_data=launch.read_only_data)
    return [owned, LaunchLimits(name, launch.cpu, launch.memory), *kept, *stops]


def _observed(report: AttemptReport) -> Observed:
    reason = None if report.reason is None else Reason.from_wire(report.reason)
    return Observed(
        key=report.key,
        pid=report.pid,
        started=report.started,
        since=report.since,
        stopping=report.stopping,
        ended=report.ended,
        code=report.code,
        signal=report.signal,
        reason=reason,
        sizes=report.sizes,
        spent=report.spent,
    )


def ask(path: Path, request: ListAttempts | RemoveScratch | RemoveJobs, seconds: float = 5.0) -> list[Observed]:
    """Send one request and wait for the list that answers it. For programs without a loop.

    Raises UnreachableError.
    """
    for reply in _replies(path, request, seconds):
        if isinstance(reply, AttemptList):
            return [_observed(attempt) for attempt in reply.attempts]
    raise _closed(path)


def ask_account(path: Path, key: str, user: str, seconds: float = 20.0) -> int:
    """Have the shepherd give a scratch folder for attempt ``key`` to the account of a user; return the account's id.

    Raises UnreachableError, CannotStartError.
    """
    for reply in _replies(path, GiveScratch(key, user), seconds):
        match reply:
            case Account(uid):
                return uid
            case Failed(code, text):
                raise CannotStartError(code, text)
    raise _closed(path)


def _replies(path: Path, request: Request, seconds: float) -> Iterator[Reply | None]:
    """Send one request; yield what comes back until the shepherd closes the connection. Raises UnreachableError."""
    lines = Lines()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path))
            connection.sendall(pack(request))
            while data := connection.recv(READ):
                yield from map(unpack_reply, lines.feed(data))
    except (OSError, ValueError) as error:
        raise UnreachableError(f"the shepherd does not answer at {path}: {error}") from error


def _closed(path: Path) -> UnreachableError:
    return UnreachableError(f"the shepherd at {path} closed the connection")
