"""The end of containers: by themselves or stopped, with their complete log. Part of the docker runtime.

An attempt ends when its container has ended and its log is completely written. Only then is its end reported.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import signal
from collections.abc import Callable, Mapping

from grass.errors import GrassError, NotFoundError
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import NodeHome
from grass.system import clock
from node.runtime import proc, shutdown_note
from node.runtime.attempts import Folders
from node.runtime.docker import plan
from node.runtime.docker.container import Container
from node.runtime.docker.engine import Engine
from node.runtime.docker.engine_json import Answer
from node.runtime.docker.event_stream import EventStream
from node.runtime.docker.outcome import Past, outcome, wall
from node.runtime.docker.output import Output
from node.runtime.reactor import Reactor

_AGAIN = 0.05
"""Seconds until a log is read again that ended before its container."""
_LOG_PATIENCE = 5.0
"""Seconds that the log of an ended container may take."""
_INIT_SECONDS, _INIT_TRIES = 1.0, 40
"""How long, and how often, a container's init is looked at before TERM is sent all the same."""
_HEAD = 512
_UNKNOWN = "its container is gone; how it ended is unknown"

log = logging.getLogger(__name__)


class Ends:
    """Stops containers, and reports how they ended.

    ``attempts``: the runtime's attempts by key. ``ended`` is called for each ended attempt.
    """

    def __init__(
        self,
        config: NodeHome,
        engine: Engine,
        folders: Folders,
        reactor: Reactor,
        events: EventStream,
        attempts: Mapping[str, Container],
        ended: Callable[[Container], None],
    ) -> None:
        self._config = config
        self._engine = engine
        self._folders = folders
        self._reactor = reactor
        self._events = events
        self._attempts = attempts
        self._ended = ended
        self.away: tuple[float, float] | None = None
        """When the engine was away, which ended its containers (wall times)."""
        self._left = shutdown_note.read(config.node_dir)
        self.output = Output(engine, folders, reactor, events, self._on_output_over)

    # stopping

    def stop(self, attempt: Container) -> None:
        """Send its stop signal now, and KILL at ``kill_at``."""
        assert attempt.kill_at is not None
        self._terminate(attempt, _INIT_TRIES)
        self._reactor.at(attempt.kill_at, lambda: self._kill(attempt, signal.SIGKILL))
        self._reactor.wake()

    def kill(self, attempt: Container, reason: Reason) -> None:
        attempt.reason = attempt.reason or reason
        self._kill(attempt, signal.SIGKILL)

    def remove(self, container: str) -> None:
        self._reactor.removers.ask(functools.partial(self._engine.remove, container), self._on_removed)

    def _terminate(self, attempt: Container, tries: int) -> None:
        """Send its stop signal once the container's init is up, which blocks the signal and passes it on. Before, the
        kernel would drop it, because process 1 of a container gets no signal that it does not expect."""
        number = attempt.stop_signal
        if tries and attempt.runs and attempt.pid is not None and not proc.blocks(attempt.pid, number):
            self._reactor.after(_INIT_SECONDS / _INIT_TRIES, functools.partial(self._terminate, attempt, tries - 1))
        else:
            self._kill(attempt, number)

    def _kill(self, attempt: Container, number: int) -> None:
        if attempt.runs and attempt.id is not None:
            attempt.signalled = True
            self._reactor.errands.ask(functools.partial(self._engine.kill, attempt.id, number), self._ignore)

    def _ignore(self, _: object) -> None:
        """Ignore errors: an ended container cannot be signalled, and the event stream notices an engine that is
        away."""

    def _on_removed(self, result: GrassError | None) -> None:
        if result is not None:  # the next list shows it, and it is removed again
            log.warning("a container could not be removed: %s", result)

    # observing ends

    def died(self, container: str) -> None:
        """Inspect an ended container after a while. Normally the end of its log comes first; a log that hangs must not
        hang its job."""
        for attempt in self._attempts.values():
            if attempt.id == container:
                self._reactor.after(_LOG_PATIENCE, functools.partial(self._look, attempt))

    def killed(self, container: str) -> None:
        """Note that a container got a signal that Grass did not send. An engine that is stopped sends TERM to all."""
        for attempt in self._attempts.values():
            if attempt.id == container and not attempt.signalled:
                attempt.killed = True

    def _on_output_over(self, attempt: Container) -> None:
        if attempt.over is not None:
            self._end(attempt, attempt.over)
        else:
            self._look(attempt)

    def _look(self, attempt: Container) -> None:
        if attempt.runs and attempt.id is not None:
            ask = functools.partial(_inspect, self._engine, attempt.id, attempt.killed)
            self._reactor.errands.ask(ask, functools.partial(self._on_inspected, attempt))

    def _on_inspected(self, attempt: Container, found: tuple[Answer, bool | None] | GrassError) -> None:
        if self._attempts.get(attempt.key) is not attempt or not attempt.runs:
            return
        if self._events.ended is not None:  # with systemd's socket, an engine that starts again answers this first
            return  # the list that follows tells when it was away, and opens the log again
        if isinstance(found, NotFoundError):
            self.finish_unknown(attempt)
            return
        if isinstance(found, GrassError):
            self._events.disconnect(str(found))
            return
        inspected, with_engine = found
        if with_engine is None and attempt.killed:  # the event of its signal came after the end of its log
            self._look(attempt)
            return
        attempt.with_engine = bool(with_engine)
        if inspected["State"]["Status"] not in ("exited", "dead"):
            self._reactor.after(_AGAIN, lambda: self.output.open(attempt))
        elif attempt.over is None:
            attempt.over = inspected["State"]
            self.output.pause(attempt)
            self.output.open(attempt)

    def _end(self, attempt: Container, state: Answer) -> None:
        past = Past(
            same_boot=attempt.same_boot,
            booted=clock.wall() - clock.steady(),
            stderr=_beginning(self._folders.path(attempt.key, "stderr")),
            memory=attempt.memory,
            signalled=attempt.signalled,
            left=self._left.at if self._left and self._left.boot == attempt.boot else math.inf,
            with_engine=attempt.with_engine or self._was_away(attempt, state),
        )
        result = outcome(state, past)
        attempt.code, attempt.signal = result.code, result.signal
        attempt.reason = attempt.reason or result.reason
        ended = max(result.ended or clock.wall(), attempt.started or 0.0)
        scratch = self._folders.scratch(attempt.key)
        if self._config.node.isolate is None and _has_others_files(scratch):  # otherwise the shepherd removes them
            body = plan.takeover(self._config, attempt.image, scratch, os.geteuid(), os.getegid())
            take = functools.partial(self._engine.run, body)
            self._reactor.removers.ask(take, lambda code: self._on_taken(attempt, ended, code))
        else:
            self.finish(attempt, ended)

    def _was_away(self, attempt: Container, state: Answer) -> bool:
        """Return whether it ended while the engine was on its way out, or away. The way out begins with a signal to it,
        and may take seconds. The engine tells of the signal after it was sent, perhaps after the end."""
        ended = wall(state["FinishedAt"])
        if self.away is None or ended is None:
            return False
        since, until = self.away
        return (attempt.killed or since <= ended) and ended <= until

    def _on_taken(self, attempt: Container, ended: float, code: int | GrassError) -> None:
        if code != 0:
            log.warning(
                "%s: its scratch folder cannot be removed, because its image has no chown: %s", attempt.key, code
            )
        if self._attempts.get(attempt.key) is attempt and attempt.runs:
            self.finish(attempt, ended)

    def finish_unknown(self, attempt: Container) -> None:
        attempt.reason = attempt.reason or Reason(ReasonCode.EXIT_UNKNOWN, _UNKNOWN)
        self.finish(attempt, clock.wall())

    def cannot_start(self, attempt: Container, code: int, reason: Reason) -> None:
        attempt.code, attempt.reason = code, reason
        self.finish(attempt, clock.wall())

    def finish(self, attempt: Container, ended: float) -> None:
        """Report the end of an attempt, at this wall time."""
        self.output.close(attempt)
        attempt.ended, attempt.start = ended, None
        attempt.sizes = self._folders.sizes(attempt.key)
        self._reactor.publish(attempt.observed())
        self._ended(attempt)


def _inspect(engine: Engine, container: str, signalled: bool) -> tuple[Answer, bool | None]:
    """Inspect a container. If somebody sent it a signal, also tell whether its engine ends, which then is the cause.
    None: not asked."""
    inspected = engine.inspect(container)
    return inspected, engine.ends() if signalled else None


def _has_others_files(folder: str) -> bool:
    """Return whether the folder has files of other users, which this process may not remove."""
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
