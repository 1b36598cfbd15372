"""The docker runtime: attempts as containers, for the node-agent's (or any) single-threaded loop.

Its threads only wait for the engine. State that must survive this process is in the containers: their labels name the
attempt, their state shows how it ended. Their logs, which the engine keeps, are copied into the attempt's files; after
a restart copying resumes at the size of these files. ``forget`` removes the container. The parts: ``event_stream``,
``starts``, ``output``, ``ends`` and ``images``, driven by the ``reactor``.

When the event stream breaks, the engine counts as away (see protocol.py). When it is back, everything is listed again.
A container that was created and never started is removed then.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from grass.errors import GrassError, UnreachableError
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import NodeHome
from grass.system import clock
from node.runtime.attempts import Folders
from node.runtime.docker import plan
from node.runtime.docker.container import Container
from node.runtime.docker.ends import Ends
from node.runtime.docker.engine import Engine
from node.runtime.docker.engine_json import Answer
from node.runtime.docker.event_stream import EventStream
from node.runtime.docker.kept_memory import KeptFolders
from node.runtime.docker.starts import ImageSource, LaterError, Made, Starts, why_not
from node.runtime.fork_bombs import ForkBombs, why_killed
from node.runtime.parallelism import ParallelismLimits
from node.runtime.protocol import Launch, Listed, RuntimeEvent, Start, Stop, Waiting
from node.runtime.reactor import Reactor

_LAST_WORDS = 3.0
"""Seconds that a closing runtime waits for requests in progress."""
_RETRY = 2.0
"""Seconds until the next try of a start that needs what is not available at the moment, such as its image."""
_LOOK = 1.0
"""Seconds between two looks for fork bombs, while containers run."""
_EXPIRE = 600.0
"""Seconds between two looks for memory that is kept for nobody."""
_CLOSING = 0.5
"""Seconds within which this process learns that the engine closed the stream of events."""
_ENGINE_AWAY = Reason(ReasonCode.RUNTIME, "waits for the container engine of its node, which does not answer")


class _Around(NamedTuple):
    """The containers of an engine that answers again, and when it was away, if that ended its containers."""

    containers: list[Answer]
    away: tuple[float, float] | None


def _look_around(engine: Engine, labels: Iterable[str], ended: float | None) -> _Around:
    """``ended``: when the engine closed the stream of events: before or after it stopped containers, by its version."""
    kept = ended is None or engine.facts().get("LiveRestoreEnabled", False)
    away = None if ended is None or kept else (ended - _CLOSING, clock.wall())
    return _Around(engine.containers(labels), away)


class DockerRuntime:
    """A ``Runtime`` whose attempts are containers.

    ``images`` None: only images that the engine has can be started.
    """

    def __init__(self, config: NodeHome, engine: Engine, images: ImageSource | None = None) -> None:
        self._config = config
        self._engine = engine
        folders = Folders(str(config.node_dir / "attempts"))
        self._launches: dict[str, Launch] = {}
        self._limits = ParallelismLimits()
        self._attempts: dict[str, Container] = {}
        self._listed = False
        """Whether the containers were listed since the event stream was opened."""
        self._reactor = Reactor()
        self._events = EventStream(
            engine, self._reactor, self._on_engine_up, self._on_engine_down, self._on_died, self._on_killed
        )
        self._kept = KeptFolders(config)
        self._starts = Starts(config, engine, folders, self._reactor, images, self._kept)
        self._ends = Ends(config, engine, folders, self._reactor, self._events, self._attempts, self._on_end)
        self._bombs = ForkBombs()
        self._looks = False
        """Whether the next look for fork bombs is planned."""
        self._reactor.after(_EXPIRE, self._expire)

    # called by the node-agent

    def define(self, launches: dict[str, Launch]) -> None:
        self._launches.update(launches)
        for name, launch in launches.items():
            self._begin(self._limits.set_width(name, launch.width))

    def drop(self, launches: Iterable[str]) -> None:
        for name in launches:
            self._launches.pop(name, None)
            self._limits.drop(name)
            self._kept.drop(name)

    def let_go(self, tasks: Iterable[str]) -> None:
        self._kept.let_go(tasks)

    def start(self, starts: list[Start]) -> None:
        for start in starts:
            if not self._listed:
                self._reactor.publish(Waiting(start.key, _ENGINE_AWAY))  # the node-agent asks again after the list
            elif start.key not in self._attempts:
                self._attempts[start.key] = Container(start.key, start.launch, start)
                self._begin(self._limits.add(start.launch, start.key))

    def stop(self, stops: list[Stop]) -> None:
        for key, grace, reason in stops:
            attempt = self._attempts.get(key)
            if attempt is None or attempt.ended is not None:
                continue
            if attempt.id is None and not attempt.starting:
                attempt.reason = reason
                self._ends.finish(attempt, clock.wall())
                continue
            kill_at = clock.steady() + grace
            if attempt.kill_at is not None and attempt.kill_at <= kill_at:
                continue
            attempt.reason = attempt.reason if attempt.stopping else reason
            attempt.stopping, attempt.kill_at = True, kill_at
            if attempt.id is not None:
                self._ends.stop(attempt)

    def forget(self, keys: list[str]) -> None:
        for key in keys:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.ended is not None:
                del self._attempts[key]
                self._bombs.forget(attempt.group)
                if attempt.id is not None:
                    self._ends.remove(attempt.id)

    def receive(self) -> list[RuntimeEvent]:
        return self._reactor.turn()

    def fileno(self) -> int:
        return self._reactor.fileno()

    def due(self) -> float | None:
        return self._reactor.due()

    def trouble(self) -> Reason | None:
        """Return None: the machine's owner may stop the engine, and processes of this node run without it."""
        return None

    def roots(self) -> list[int]:
        return []

    def close(self) -> None:
        self._reactor.end_work(_LAST_WORDS)
        self._events.close()
        self._on_engine_down()
        self._engine.close()
        self._reactor.close()

    # called by the event stream

    def _on_engine_up(self) -> None:
        running = {attempt.key: attempt.id for attempt in self._attempts.values() if attempt.runs}
        ask = functools.partial(_look_around, self._engine, plan.mine(self._config), self._events.ended)
        self._reactor.errands.ask(ask, functools.partial(self._on_list, self._events.connection, running))

    def _on_engine_down(self) -> None:
        self._listed = False
        for attempt in self._attempts.values():
            self._ends.output.close(attempt)

    def _on_died(self, container: str) -> None:
        self._ends.died(container)

    def _on_killed(self, container: str) -> None:
        self._ends.killed(container)

    def _on_list(self, connection: int, running: dict[str, str | None], found: _Around | GrassError) -> None:
        """Take the list.

        ``running``: the containers when the list was requested. Those started later may be missing in it.
        """
        if not self._events.up or self._events.connection != connection:
            return
        if isinstance(found, GrassError):
            self._events.disconnect(str(found))
            return
        self._events.reset_retry()
        self._ends.away, self._events.ended = found.away, None
        labelled = [(inspected["Config"]["Labels"].get(plan.ATTEMPT), inspected) for inspected in found.containers]
        here = {key: inspected for key, inspected in labelled if key}
        for key, inspected in here.items():
            self._adopt(key, inspected)
        for attempt in list(self._attempts.values()):
            if attempt.runs and attempt.key not in here and running.get(attempt.key) == attempt.id:
                self._ends.finish_unknown(attempt)
        self._listed = True
        self._reactor.publish(Listed([attempt.observed() for attempt in self._attempts.values()]))

    def _adopt(self, key: str, inspected: Answer) -> None:
        attempt = self._attempts.get(key)
        if attempt is None:
            if inspected["State"]["Status"] == "created":
                self._ends.remove(inspected["Id"])
                return
            launch = inspected["Config"]["Labels"].get(plan.LAUNCH, "")
            attempt = self._attempts[key] = Container(key, launch)
            attempt.update(inspected)
            self._limits.add_running(launch, key)
        if attempt.runs:
            self._go_on(attempt)

    def _go_on(self, attempt: Container) -> None:
        """Copy the output of a container that runs, and stop it if that was requested."""
        self._ends.output.open(attempt)
        if attempt.stopping:
            self._ends.stop(attempt)
        if not self._looks:
            self._looks = True
            self._reactor.after(_LOOK, self._end_bombs)

    def _end_bombs(self) -> None:
        running = [attempt for attempt in self._attempts.values() if attempt.runs]
        for attempt in running:
            if attempt.group and self._bombs.is_one(attempt.group):
                self._ends.kill(attempt, why_killed(plan.MOST_PROCESSES))
        self._looks = bool(running)
        if running:
            self._reactor.after(_LOOK, self._end_bombs)

    def _expire(self) -> None:
        self._kept.expire([attempt.key for attempt in self._attempts.values() if attempt.ended is None])
        self._reactor.after(_EXPIRE, self._expire)

    # starting, and continuing after an end

    def _begin(self, keys: Iterable[str]) -> None:
        for key in keys:
            attempt = self._attempts[key]
            launch = self._launches.get(attempt.launch)
            if launch is not None and launch.keep:
                self._kept.began(key)
            self._starts.begin(attempt, launch, functools.partial(self._on_made, attempt))

    def _on_made(self, attempt: Container, made: Made) -> None:
        attempt.starting = False
        if self._attempts.get(attempt.key) is not attempt:
            return
        if isinstance(made, UnreachableError):
            del self._attempts[attempt.key]  # the node-agent asks again after the next list
            self._begin(self._limits.leave(attempt.launch, attempt.key))
            self._events.disconnect(str(made))
        elif isinstance(made, LaterError) and not attempt.stopping:
            self._reactor.after(_RETRY, functools.partial(self._begin_again, attempt))
        elif made is None or isinstance(made, LaterError):
            self._ends.finish(attempt, clock.wall())
        elif isinstance(made, GrassError):
            self._ends.cannot_start(attempt, *why_not(made))
        else:
            attempt.update(made)
            self._reactor.publish(attempt.observed())
            self._go_on(attempt)

    def _begin_again(self, attempt: Container) -> None:
        if self._attempts.get(attempt.key) is attempt and attempt.ended is None:
            self._begin([attempt.key])

    def _on_end(self, attempt: Container) -> None:
        self._begin(self._limits.leave(attempt.launch, attempt.key))
        if attempt.launch not in self._launches:
            self._limits.drop(attempt.launch)
