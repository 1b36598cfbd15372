"""Attempts as containers. Part of the node-agent's (or any) single-threaded loop; its threads only wait for the engine.

What has to survive this process is in the containers: their labels say whose they are, their state how they ended, and
their logs, which the engine keeps, are copied into the attempt's files from where these end. An attempt has ended when
its log is over and completely written. ``forget`` removes the container.

The stream of the engine's events is the line to it: when that breaks, the engine counts as away (see protocol.py), and
everything is listed when it is there again. A container that was made and never started is removed then.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import select
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

from grass import clock
from grass.backoff import Backoff
from grass.config import ClusterConfig
from grass.errors import ConflictError, GrassError, InputError, NotFoundError, UnreachableError
from grass.model.reasons import Reason, ReasonCode
from node.runtime.attempts import Folders
from node.runtime.docker import plan
from node.runtime.docker.container import Container
from node.runtime.docker.engine import Engine
from node.runtime.docker.outcome import Past, outcome
from node.runtime.docker.streams import EngineStream, Log
from node.runtime.docker.workers import Workers
from node.runtime.lanes import Lanes
from node.runtime.protocol import Launch, Listed, News, Start, Stop, Waiting
from node.runtime.spawning import NOT_EXECUTABLE, NOT_FOUND, CannotStartError
from node.runtime.timers import Timers

STARTERS, ERRANDS, REMOVERS = 4, 3, 2
"""Threads that start containers, that ask and signal, that remove."""
_FIRST_RETRY, _LONGEST_RETRY = 0.05, 2.0
_AGAIN = 0.05
"""Seconds until a log is asked for again that was over before its container."""
_DISK_RETRY = 1.0
_LOG_PATIENCE = 5.0
"""Seconds that the log of a container that is over may take."""
_LAST_WORDS = 3.0
"""Seconds that a closing runtime waits for requests under way."""
_HEAD = 512
_REMOVAL_PATIENCE = 10.0
_IMAGE_RETRY = 2.0
"""Seconds until an image is asked for again that could not be had for now."""
_UNKNOWN = "its container is gone and nothing saw how it ended"

_ENGINE_AWAY = Reason(ReasonCode.RUNTIME, "waits for its node's container engine, which does not answer")

log = logging.getLogger(__name__)


class Images(Protocol):
    """``node.agent.images.Images``: brings an image into the engine. Called in threads.

    UnreachableError: not for now, ask again. Another GrassError: it cannot be had.
    """

    def prepare(self, image: str, say: Callable[[str], None]) -> None: ...
    def missing(self, image: str) -> GrassError: ...


class _LaterError(GrassError):
    """Its image cannot be had for now; that was said."""


class DockerRuntime:
    """``images`` None: only what the engine has can be started."""

    def __init__(self, config: ClusterConfig, engine: Engine, images: Images | None = None) -> None:
        self._config = config
        self._engine = engine
        self._images = images
        self._folders = Folders(str(config.node_dir / "attempts"))
        self._cores = os.cpu_count() or 1
        self._launches: dict[str, Launch] = {}
        self._lanes = Lanes()
        self._attempts: dict[str, Container] = {}
        self._news: list[News] = []
        self._timers = Timers()
        self._poll = select.epoll()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._wakeup, select.EPOLLIN)
        self._handlers: dict[int, Callable[[], None]] = {self._wakeup: self._woken}
        self._starters = Workers(STARTERS, self._wake)
        self._errands = Workers(ERRANDS, self._wake)
        self._removers = Workers(REMOVERS, self._wake)
        self._line: EngineStream | None = None
        self._listed = False
        """Since the line is up, what there is was listed."""
        self._event = b""
        """The beginning of one that has not come completely."""
        self._retry = Backoff(_FIRST_RETRY, _LONGEST_RETRY)
        self._timers.at(0.0, self._connect)

    # what the node-agent asks

    def define(self, launches: dict[str, Launch]) -> None:
        self._launches.update(launches)
        for name, launch in launches.items():
            self._begin(self._lanes.widen(name, launch.width))

    def drop(self, launches: Iterable[str]) -> None:
        for name in launches:
            self._launches.pop(name, None)
            self._lanes.drop(name)

    def start(self, starts: list[Start]) -> None:
        for start in starts:
            if not self._listed:
                self._say(Waiting(start.key, _ENGINE_AWAY.to_wire()))  # it is asked for again after the list
            elif start.key not in self._attempts:
                self._attempts[start.key] = Container(start.key, start.launch, start)
                self._begin(self._lanes.add(start.launch, start.key))

    def stop(self, stops: list[Stop]) -> None:
        for key, grace, reason in stops:
            attempt = self._attempts.get(key)
            if attempt is None or attempt.ended is not None:
                continue
            if attempt.id is None and not attempt.starting:
                attempt.reason = reason
                self._finish(attempt, clock.wall())
                continue
            kill_at = clock.steady() + grace
            if attempt.kill_at is not None and attempt.kill_at <= kill_at:
                continue
            attempt.reason = attempt.reason if attempt.stopping else reason
            attempt.stopping, attempt.kill_at = True, kill_at
            if attempt.id is not None:
                self._stop(attempt)

    def forget(self, keys: list[str]) -> None:
        for key in keys:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.ended is not None:
                del self._attempts[key]
                if attempt.id is not None:
                    self._remove(attempt.id)

    def receive(self) -> list[News]:
        self._timers.run(clock.steady())
        for descriptor, _ in self._poll.poll(0):
            handler = self._handlers.get(descriptor)
            if handler is not None:  # else it was closed by one before it
                handler()
        news, self._news = self._news, []
        return news

    def fileno(self) -> int:
        return self._poll.fileno()

    def due(self) -> float | None:
        return self._timers.due

    def trouble(self) -> Reason | None:
        """An engine belongs to the machine's owner, who may stop it; processes of this node run on without it."""
        return None

    def roots(self) -> list[int]:
        return []

    def close(self) -> None:
        deadline = clock.steady() + _LAST_WORDS
        for workers in (self._starters, self._errands, self._removers):
            workers.close(deadline)
        self._hang_up()
        self._engine.close()
        self._poll.close()
        os.close(self._wakeup)

    # the line to the engine

    def _connect(self) -> None:
        try:
            filters = '{"type":["container"],"event":["die"]}'
            self._line = EngineStream(self._engine.socket, "/events", filters=filters)
        except OSError as error:
            self._try_again(str(error))
            return
        self._watch(self._line.fileno(), self._on_line)
        self._engine.renew()
        running = {attempt.key: attempt.id for attempt in self._attempts.values() if attempt.runs}
        ask = functools.partial(self._engine.containers, plan.mine(self._config))
        self._errands.ask(ask, functools.partial(self._on_list, self._line, running))

    def _on_line(self) -> None:
        assert self._line is not None
        data = self._line.read()
        if data is None or self._line.status not in (None, 200):
            self._away("it closed the connection")
            return
        *lines, self._event = (self._event + data).split(b"\n")
        for line in lines:
            self._on_died(json.loads(line)["id"])

    def _on_died(self, container: str) -> None:
        """Normally its log is over at once, and that is what counts; an engine's log that hangs must not hang a job."""
        for attempt in self._attempts.values():
            if attempt.id == container:
                self._timers.at(clock.steady() + _LOG_PATIENCE, functools.partial(self._look, attempt))

    def _away(self, why: str) -> None:
        if self._line is not None:
            self._hang_up()
            self._try_again(why)

    def _hang_up(self) -> None:
        self._listed = False
        for attempt in self._attempts.values():
            self._close_log(attempt)
        if self._line is not None:
            self._forsake(self._line.fileno())
            self._line.close()
            self._line, self._event = None, b""

    def _try_again(self, why: str) -> None:
        if self._retry.fresh:
            log.warning("the container engine is away: %s", why)
        self._timers.at(clock.steady() + self._retry.next(), self._connect)

    def _on_list(
        self, line: EngineStream, running: dict[str, str | None], found: list[dict[str, Any]] | GrassError
    ) -> None:
        """``running`` when the list was asked for: what was started since then need not be in it."""
        if self._line is not line:
            return
        if isinstance(found, GrassError):
            self._away(str(found))
            return
        self._retry.reset()
        labelled = [(inspected["Config"]["Labels"].get(plan.ATTEMPT), inspected) for inspected in found]
        here = {key: inspected for key, inspected in labelled if key}
        for key, inspected in here.items():
            self._adopt(key, inspected)
        for attempt in list(self._attempts.values()):
            if attempt.runs and attempt.key not in here and running.get(attempt.key) == attempt.id:
                self._finish_unknown(attempt)
        self._listed = True
        self._say(Listed([attempt.observed() for attempt in self._attempts.values()]))

    def _adopt(self, key: str, inspected: dict[str, Any]) -> None:
        attempt = self._attempts.get(key)
        if attempt is None:
            if inspected["State"]["Status"] == "created":
                self._remove(inspected["Id"])
                return
            launch = inspected["Config"]["Labels"].get(plan.LAUNCH, "")
            attempt = self._attempts[key] = Container(key, launch)
            attempt.take(inspected)
            self._lanes.enter(launch, key)
        if attempt.runs:
            self._open_log(attempt)
            if attempt.stopping:
                self._stop(attempt)

    # starting

    def _begin(self, keys: Iterable[str]) -> None:
        for key in keys:
            attempt = self._attempts[key]
            launch = self._launches.get(attempt.launch)
            assert attempt.start is not None
            attempt.since = clock.steady()
            try:
                if launch is None:
                    message = f"cannot start: nobody said what {attempt.launch} is"
                    raise CannotStartError(NOT_EXECUTABLE, message)
                body = plan.request(self._config, attempt.start, launch, self._folders.scratch(key), self._cores)
            except CannotStartError as error:
                self._cannot_start(attempt, error.code, error.reason)
                continue
            attempt.starting = True
            question = functools.partial(self._make, attempt, body, launch.image)
            self._starters.ask(question, functools.partial(self._on_made, attempt))

    def _make(self, attempt: Container, body: dict[str, Any], image: str) -> dict[str, Any] | None:
        """In a thread. None: it was told to stop before it was there."""
        name = plan.container_name(self._config.name, attempt.key)
        self._make_folders(attempt.key)
        self._prepare(attempt, image)
        if attempt.stopping:
            return None
        try:
            made = self._create(name, body)
        except NotFoundError:
            if self._images is None:
                raise
            raise self._images.missing(image) from None
        try:
            self._engine.start(made)
            return self._engine.inspect(made)
        except GrassError:
            with suppress(GrassError):
                self._engine.remove(made)
            raise

    def _prepare(self, attempt: Container, image: str) -> None:
        if self._images is None:
            return
        try:
            self._images.prepare(image, functools.partial(self._say_waiting, attempt))
        except UnreachableError as error:
            if not attempt.stopping:
                self._say_waiting(attempt, f"{error}; it is tried again")
                raise _LaterError from error

    def _create(self, name: str, body: dict[str, Any]) -> str:
        """A container of the same name is what is left of a start that got lost; its removal may be under way."""
        deadline = clock.steady() + _REMOVAL_PATIENCE
        while True:
            try:
                return self._engine.create(name, body)
            except ConflictError:
                if clock.steady() > deadline:
                    raise
            self._remove_older(name)

    def _remove_older(self, name: str) -> None:
        try:
            labels = self._engine.inspect(name)["Config"]["Labels"] or {}
        except NotFoundError:
            return
        if any(labels.get(label) != value for label, value in (each.split("=", 1) for each in self._mine())):
            raise InputError(f"the engine has a container {name} already, which is not of this cluster")
        self._engine.remove(name)
        clock.sleep(_AGAIN)

    def _mine(self) -> list[str]:
        return plan.mine(self._config)

    def _make_folders(self, key: str) -> None:
        """A container's user may be anybody; nobody else gets into the folders above."""
        try:
            scratch = self._folders.make(key)
            os.chmod(scratch, 0o1777)  # noqa: PTH101
            os.makedirs(plan.addresses_folder(self._config, key), exist_ok=True)  # noqa: PTH103
        except OSError as error:
            raise InputError(f"cannot make its scratch folder: {error}") from error

    def _say_waiting(self, attempt: Container, message: str) -> None:
        """In a thread. Its time counts from when it has its image."""
        attempt.since = clock.steady()
        reason = Reason(ReasonCode.IMAGE, message).to_wire()
        self._starters.tell(lambda: self._say(Waiting(attempt.key, reason)))

    def _on_made(self, attempt: Container, made: dict[str, Any] | GrassError | None) -> None:
        attempt.starting = False
        if self._attempts.get(attempt.key) is not attempt:
            return
        if isinstance(made, UnreachableError):
            del self._attempts[attempt.key]  # whoever wants it asks again when the engine is listed
            self._begin(self._lanes.leave(attempt.launch, attempt.key))
            self._away(str(made))
        elif isinstance(made, _LaterError):
            self._timers.at(clock.steady() + _IMAGE_RETRY, functools.partial(self._begin_again, attempt))
        elif isinstance(made, GrassError):
            self._cannot_start(attempt, *_why_not(made))
        elif made is None:
            self._finish(attempt, clock.wall())
        else:
            attempt.take(made)
            self._say(attempt.observed())
            self._open_log(attempt)
            if attempt.stopping:
                self._stop(attempt)

    def _begin_again(self, attempt: Container) -> None:
        if self._attempts.get(attempt.key) is attempt and attempt.ended is None:
            self._begin([attempt.key])

    def _cannot_start(self, attempt: Container, code: int, reason: Reason) -> None:
        attempt.code, attempt.reason = code, reason.to_wire()
        self._finish(attempt, clock.wall())

    # ending

    def _stop(self, attempt: Container) -> None:
        assert attempt.kill_at is not None
        self._kill(attempt, signal.SIGTERM)
        self._timers.at(attempt.kill_at, lambda: self._kill(attempt, signal.SIGKILL))
        self._wake()

    def _kill(self, attempt: Container, number: int) -> None:
        if attempt.runs and attempt.id is not None:
            attempt.told = True
            self._errands.ask(functools.partial(self._engine.kill, attempt.id, number), self._ignore)

    def _remove(self, container: str) -> None:
        self._removers.ask(functools.partial(self._engine.remove, container), self._on_removed)

    def _ignore(self, _: object) -> None:
        """A container that is over cannot be signalled; of an engine that is away the line tells."""

    def _on_removed(self, result: GrassError | None) -> None:
        if result is not None:  # it is listed again, and then forgotten again
            log.warning("a container could not be removed: %s", result)

    def _open_log(self, attempt: Container) -> None:
        if not attempt.runs or self._line is None or (attempt.log is not None and attempt.log.is_open):
            return
        try:
            if attempt.log is None:
                attempt.log = self._new_log(attempt)
            else:
                attempt.log.reopen(follow=attempt.over is None)
        except OSError as error:
            self._later(attempt, error)
            return
        self._watch(attempt.log.fileno(), lambda: self._on_log(attempt))

    def _new_log(self, attempt: Container) -> Log:
        assert attempt.id is not None
        paths = {name: self._folders.path(attempt.key, name) for name in ("stdout", "stderr")}
        os.makedirs(self._folders.job(attempt.key), 0o700, exist_ok=True)  # noqa: PTH103
        return Log(self._engine.socket, attempt.id, paths)

    def _on_log(self, attempt: Container) -> None:
        assert attempt.log is not None
        try:
            if attempt.log.pump():
                return
        except OSError as error:
            self._close_log(attempt)
            self._later(attempt, error)
            return
        self._pause_log(attempt)
        if attempt.over is not None:
            self._end(attempt, attempt.over)
        else:
            self._look(attempt)

    def _look(self, attempt: Container) -> None:
        if attempt.runs and attempt.id is not None:
            ask = functools.partial(self._engine.inspect, attempt.id)
            self._errands.ask(ask, functools.partial(self._on_inspected, attempt))

    def _later(self, attempt: Container, error: OSError) -> None:
        log.warning("%s: its log waits: %s", attempt.key, error)
        self._timers.at(clock.steady() + _DISK_RETRY, lambda: self._open_log(attempt))

    def _pause_log(self, attempt: Container) -> None:
        if attempt.log is not None and attempt.log.is_open:
            self._forsake(attempt.log.fileno())
            attempt.log.pause()

    def _close_log(self, attempt: Container) -> None:
        self._pause_log(attempt)
        if attempt.log is not None:
            attempt.log.close()
            attempt.log = None

    def _on_inspected(self, attempt: Container, inspected: dict[str, Any] | GrassError) -> None:
        if self._attempts.get(attempt.key) is not attempt or not attempt.runs:
            return
        if isinstance(inspected, NotFoundError):
            self._finish_unknown(attempt)
        elif isinstance(inspected, GrassError):
            self._away(str(inspected))
        elif inspected["State"]["Status"] not in ("exited", "dead"):
            self._timers.at(clock.steady() + _AGAIN, lambda: self._open_log(attempt))
        elif attempt.over is None:
            attempt.over = inspected["State"]
            self._pause_log(attempt)
            self._open_log(attempt)

    def _end(self, attempt: Container, state: dict[str, Any]) -> None:
        past = Past(
            same_boot=attempt.same_boot,
            booted=clock.wall() - clock.steady(),
            stderr=_beginning(self._folders.path(attempt.key, "stderr")),
            memory=attempt.memory,
            told=attempt.told,
        )
        result = outcome(state, past)
        attempt.code, attempt.signal = result.code, result.signal
        if attempt.reason is None and result.reason is not None:
            attempt.reason = result.reason.to_wire()
        ended = max(result.ended or clock.wall(), attempt.started or 0.0)
        scratch = self._folders.scratch(attempt.key)
        if _has_others_files(scratch):
            body = plan.takeover(self._config, attempt.image, scratch, os.geteuid(), os.getegid())
            self._removers.ask(lambda: self._engine.run(body), lambda code: self._on_taken(attempt, ended, code))
        else:
            self._finish(attempt, ended)

    def _on_taken(self, attempt: Container, ended: float, code: int | GrassError) -> None:
        if code != 0:
            log.warning("%s: its image has no chown, so its scratch folder stays: %s", attempt.key, code)
        if self._attempts.get(attempt.key) is attempt and attempt.runs:
            self._finish(attempt, ended)

    def _finish_unknown(self, attempt: Container) -> None:
        attempt.reason = attempt.reason or Reason(ReasonCode.EXIT_UNKNOWN, _UNKNOWN).to_wire()
        self._finish(attempt, clock.wall())

    def _finish(self, attempt: Container, ended: float) -> None:
        self._close_log(attempt)
        attempt.ended, attempt.start = ended, None
        attempt.sizes = self._folders.sizes(attempt.key)
        self._say(attempt.observed())
        self._begin(self._lanes.leave(attempt.launch, attempt.key))
        if attempt.launch not in self._launches:
            self._lanes.drop(attempt.launch)

    # the loop

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.EPOLLIN)

    def _forsake(self, descriptor: int) -> None:
        del self._handlers[descriptor]
        self._poll.unregister(descriptor)

    def _say(self, news: News) -> None:
        """Also when nobody is in ``receive``: then it is worth calling."""
        self._news.append(news)
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # closed in the meantime
            os.eventfd_write(self._wakeup, 1)

    def _woken(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        for workers in (self._starters, self._errands, self._removers):
            workers.handle()


def _why_not(error: GrassError) -> tuple[int, Reason]:
    """As a shell would have ended, and what the engine says."""
    code = NOT_FOUND if isinstance(error, NotFoundError) else NOT_EXECUTABLE
    return code, Reason(ReasonCode.CANNOT_START, f"cannot start its container: {error}")


def _has_others_files(folder: str) -> bool:
    """Which this process may not remove."""
    me = os.geteuid()
    if me == 0:
        return False
    try:
        with os.scandir(folder) as entries:
            return any(entry.stat(follow_symlinks=False).st_uid != me for entry in entries)
    except OSError:
        return False


def _beginning(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(_HEAD)
    except OSError:
        return b""
