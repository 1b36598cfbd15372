"""Carries out the steps of work queues. One thread decides all of them in memory (``Book``), and writes those that came
together in one step of the store, with the answers to tasks.

Another thread reads the steps of tasks. If a write fails, memory is given up and read again: the steps of tasks that
have no answer are still in the store, and users repeat theirs. Made by ``app``; users come from ``queues``.
"""

from __future__ import annotations

import logging
import queue as thread_queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from grass.api.error_reply import error_of
from grass.api.task_token import check_message, job_secret
from grass.errors import GrassError, NotAllowedError, NotFoundError, UndecodableError, UnreachableError
from grass.store.api_store import ApiStore
from grass.store.backend import Entry, Op
from grass.store.keys import REPEATED_SECONDS
from grass.system import clock
from grass.system.entropy import request_id
from grass.wire.error_views import ErrorBody
from grass.wire.keys import AttemptKey
from grass.wire.membership_api import LONGEST_WAIT
from grass.wire.queue_api import (
    QUEUE_CALL,
    QUEUE_STEP,
    Delete,
    Finish,
    Get,
    Put,
    QueueAnswer,
    QueueOutcome,
    QueueStep,
    QueueView,
    Restore,
    Revive,
)
from master.api.queue_book import Asked, Book

TICK = 0.5
"""Seconds between two looks for leases that ended, while somebody waits for items."""
_SWEEP = 60.0
_TOGETHER = 500
_MOST_WRITTEN = 4 << 20
"""Characters after which a write waits for nothing more."""
_REMEMBERED = 50_000
"""Answers in memory. Older ones are read from the store."""
_AWAY = 0.1
_PATIENCE = 10.0

log = logging.getLogger("master.api")

_T = TypeVar("_T")


@dataclass(eq=False)
class _UserAsked:
    """A step of a user, and who waits for its answer."""

    asked: Asked
    future: Future[QueueAnswer] = field(default_factory=Future)


@dataclass(eq=False)
class _View:
    """A look at queues. ``name`` None: at all of them."""

    sees: Callable[[str], bool]
    name: str | None
    future: Future[list[QueueView]] = field(default_factory=Future)


_Read = tuple[int, list[Entry]]
"""Steps of tasks, and the term in which they were read."""
_Came = _UserAsked | _View | _Read


class Desk:
    """Safe for several threads. ``secret``: ``node_token`` in the master's secrets, from which those of jobs derive.
    ``poll``: seconds that one read of the store waits."""

    def __init__(self, store: ApiStore, secret: Callable[[], str], wall: Callable[[], float], poll: float) -> None:
        self._store = store
        self._secret = secret
        self._wall = wall
        self._poll = poll
        self._inbox: thread_queue.SimpleQueue[_Came | None] = thread_queue.SimpleQueue()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._term = 0
        """Grows whenever memory was given up or read. Steps of tasks that were read before are read again."""
        self._failed: set[str] = set()
        """Steps of tasks that a fault of this program kept from being carried out. They are refused when read again."""
        self._forget()

    # for any thread

    def start(self) -> None:
        with self._lock:
            if not self._threads and not self._closed.is_set():
                runs = (self._run, self._read)
                self._threads = [threading.Thread(target=run, name="queues", daemon=True) for run in runs]
                for thread in self._threads:
                    thread.start()

    def close(self) -> None:
        with self._lock:
            self._closed.set()
        self._inbox.put(None)
        for thread in self._threads:
            thread.join()

    def ask(self, queue: str, step: QueueStep, *, user: str, everything: bool, wait: float) -> QueueAnswer:
        """Carry out a step of a user. ``everything``: of an administrator. Raises GrassError."""
        holder, until = f"user:{user}", clock.steady() + wait
        asked = Asked(queue, step, None if everything else user, holder, until, request_id())
        return self._answered(_UserAsked(asked), wait)

    def views(self, sees: Callable[[str], bool], name: str | None = None) -> list[QueueView]:
        """Return the queues of the users that the caller ``sees``, or one with its first items."""
        self.start()
        view = _View(sees, name)
        self._inbox.put(view)
        return _awaited(view.future, 0.0)

    def _answered(self, asked: _UserAsked, wait: float) -> QueueAnswer:
        self.start()
        with self._lock:
            self._futures[asked.asked.id] = asked.future
        self._inbox.put(asked)
        return _awaited(asked.future, wait)

    # the thread that reads

    def _read(self) -> None:
        term, last = -1, "0-0"
        while not self._closed.is_set():
            if term != self._term:
                term, last = self._term, "0-0"
            try:
                entries = self._store.queues.calls(last, self._poll)
            except UnreachableError:
                self._closed.wait(_AWAY)
                continue
            if entries:
                last = entries[-1][0]
                self._inbox.put((term, entries))

    # the thread that decides

    def _forget(self) -> None:
        self._term += 1
        self._writer = ""
        self._book: Book | None = None
        self._futures: dict[str, Future[QueueAnswer]] = {}
        """Of steps of users that have no answer."""
        self._waiting: dict[str, OrderedDict[str, Asked]] = {}
        self._recent: OrderedDict[str, tuple[float, QueueOutcome]] = OrderedDict()
        """Answers of the last ``REPEATED_SECONDS``, with their times."""
        self._done: list[tuple[Asked, QueueOutcome]] = []
        """What counts once it is written."""
        self._size = 0
        self._ticked = self._swept = now = clock.steady()
        self._stored_until = now
        """Until then, the store may have answers that memory lacks."""

    def _run(self) -> None:
        while not self._closed.is_set():
            came = self._next()
            try:
                self._round(self._book or self._opened(), came)
            except Exception as error:  # all who use queues wait for this thread
                if not isinstance(error, UnreachableError):
                    log.exception("internal error: work queues are read again")
                self._give_up(came, error)
        self._give_up([], UnreachableError("work queues: the API server ends; try again"))

    def _next(self) -> list[_Came]:
        """Return what came; wait for it at most until the next tick."""
        found: list[_Came] = []
        try:
            each = self._inbox.get(timeout=TICK if self._waiting else _SWEEP)
            while each is not None:
                found.append(each)
                if len(found) >= _TOGETHER:
                    break
                each = self._inbox.get_nowait()
        except thread_queue.Empty:
            pass
        return found

    def _opened(self) -> Book:
        """Take the queues over from the API server that wrote them last, and read them."""
        self._writer = request_id()
        self._store.queues.take(self._writer)
        self._book = Book(self._store, self._wall)
        self._stored_until = clock.steady() + REPEATED_SECONDS
        self._term += 1  # what was read before may have been answered by that server
        return self._book

    def _give_up(self, came: Iterable[_Came], error: Exception) -> None:
        """Forget everything: what of it is in the store is not known. Whoever waits is told to try again."""
        told = error if isinstance(error, GrassError) else GrassError("internal error; see the API server's log")
        with self._lock:
            futures: list[Future[QueueAnswer] | Future[list[QueueView]]] = [*self._futures.values()]
            self._forget()
        futures += [each.future for each in came if isinstance(each, _View)]
        for future in futures:
            if not future.done():
                future.set_exception(told)
        self._closed.wait(_AWAY)

    def _round(self, book: Book, came: Iterable[_Came]) -> None:
        for each in came:
            match each:
                case _UserAsked():
                    self._try(book, each.asked)
                case _View():
                    _show(book, each)
                case (term, entries) if term == self._term:
                    for asked in self._decoded(book, entries):
                        self._try(book, asked)
        if clock.steady() - self._ticked >= TICK:
            self._tick(book)
        for name in list(self._waiting):
            self._serve(book, name)
        self._commit(book)

    def _try(self, book: Book, asked: Asked) -> None:
        """Carry out a step, or let it wait."""
        try:
            outcome = self._outcome(book, asked)
        except UnreachableError:
            raise
        except GrassError as error:
            outcome = QueueOutcome(id=asked.id, error=ErrorBody(error.code, str(error), ()))
        except Exception:
            self._failed.add(asked.entry or asked.id)
            raise
        if outcome is None:
            self._waiting.setdefault(asked.queue, OrderedDict())[asked.entry or asked.id] = asked
            return
        self._done.append((asked, outcome))
        if (request := _request(asked)) and outcome.answer is not None:
            self._recent[request] = clock.steady(), outcome  # a repetition may come in the same round
        self._size += sum(len(item.value) for item in outcome.answer.items) if outcome.answer else 0
        if self._size + book.written > _MOST_WRITTEN:
            self._commit(book)

    def _outcome(self, book: Book, asked: Asked) -> QueueOutcome | None:
        """Carry out a step. None: it waits for items."""
        if asked.entry in self._failed:
            raise GrassError("internal error; see the API server's log")
        if earlier := self._earlier(asked):
            return QueueOutcome(id=asked.id, answer=earlier.answer)
        answer = book.step(asked)
        if isinstance(asked.step, Get) and not answer.items and asked.until > clock.steady():
            return None
        return QueueOutcome(id=asked.id, answer=answer)

    def _earlier(self, asked: Asked) -> QueueOutcome | None:
        """Return the answer to an earlier try of this step."""
        request = _request(asked)
        if not request:
            return None
        if found := self._recent.get(request):
            return found[1]
        return self._store.queues.earlier_answer(request) if clock.steady() < self._stored_until else None

    def _commit(self, book: Book) -> None:
        """Write what was decided, then tell it."""
        ops, done = book.writes(), self._done
        for asked, outcome in done:
            ops += self._answers(asked, outcome)
        if ops and not self._store.queues.commit(self._writer, ops):
            raise UnreachableError("work queues: another API server has taken over; try again")
        self._done, self._size = [], 0
        for asked, outcome in done:
            with self._lock:
                future = self._futures.pop(asked.id, None)
            if future is not None:
                _resolve(future, outcome)
        self._forget_answers(clock.steady() - REPEATED_SECONDS)

    def _forget_answers(self, before: float) -> None:
        """Forget the answers that nobody asks for any more, and those that are too many."""
        while self._recent:
            request, (at, _) = next(iter(self._recent.items()))
            if at > before:
                if len(self._recent) <= _REMEMBERED:
                    break
                self._stored_until = max(self._stored_until, at + REPEATED_SECONDS)
            del self._recent[request]

    def _answers(self, asked: Asked, outcome: QueueOutcome) -> list[Op]:
        ops: list[Op] = []
        if (request := _request(asked)) and outcome.answer is not None:
            ops += self._store.queues.answered(request, outcome)
        if asked.entry:
            ops += self._store.queues.replied(asked.node, asked.entry, outcome)
        return ops

    def _serve(self, book: Book, name: str) -> None:
        """Give items to who waits, in turn."""
        waiting = self._waiting.pop(name, OrderedDict())
        while waiting and ((queue := book.loaded(name)) is None or queue.ready):
            self._try(book, waiting.popitem(last=False)[1])
        if waiting:
            self._waiting[name] = waiting

    def _tick(self, book: Book) -> None:
        self._ticked = clock.steady()
        ended = set(book.ended({asked.holder for waiting in self._waiting.values() for asked in waiting.values()}))
        for name, waiting in list(self._waiting.items()):
            book.look(name)
            for entry, asked in list(waiting.items()):
                if asked.holder in ended:  # an item that it gets would lose a try
                    del waiting[entry]
                    book.ops += self._store.queues.refused(entry)
                elif asked.until <= self._ticked:
                    del waiting[entry]
                    self._try(book, asked)
        if self._ticked - self._swept >= _SWEEP:
            self._swept = self._ticked
            book.remove_with_jobs()

    # steps of tasks

    def _decoded(self, book: Book, entries: Iterable[Entry]) -> Iterator[Asked]:
        for entry, fields in entries:
            try:
                yield self._asked(book, entry, fields)
            except (UndecodableError, NotAllowedError, NotFoundError, KeyError) as error:
                log.warning("a step of a work queue is dropped: %s", error)
                book.ops += self._store.queues.refused(entry)

    def _asked(self, book: Book, entry: str, fields: dict[str, str]) -> Asked:
        call = QUEUE_CALL.decode(fields["body"])
        key = AttemptKey.parse(call.attempt)
        check_message(job_secret(self._secret(), key.job_id), key, fields["body"], fields["code"])
        step, user = QUEUE_STEP.decode(bytes(call.step)), book.user_of(key.job_id)
        until = clock.steady() + min(call.wait, LONGEST_WAIT)
        return Asked(call.queue, step, user, call.attempt, until, call.id, call.node, entry, key.job_id)


def _request(asked: Asked) -> str:
    """Return the id by which a repetition of a step is known; empty: it may be done again."""
    found = asked.step.id if isinstance(asked.step, Put | Finish | Revive | Restore | Delete) else ""
    return f"{asked.holder}/{asked.queue}/{found}" if found else ""


def _show(book: Book, view: _View) -> None:
    try:
        view.future.set_result(book.views(view.sees, view.name))
    except UnreachableError:
        raise
    except GrassError as error:
        view.future.set_exception(error)


def _awaited(future: Future[_T], wait: float) -> _T:
    try:
        return future.result(wait + _PATIENCE)
    except TimeoutError as error:
        raise UnreachableError("work queues: the API server is busy, or the store is away; try again") from error


def _resolve(future: Future[QueueAnswer], outcome: QueueOutcome) -> None:
    if outcome.answer is not None:
        future.set_result(outcome.answer)
    elif outcome.error is not None:
        future.set_exception(error_of({"code": outcome.error.code, "message": outcome.error.message}))
