"""The shepherd: parent of all processes of a node's tasks. It starts them, observes their ends and keeps the results.

Run as ``python -m node.runtime.shepherd CLUSTER_JSON``, under the guard (``guard.py``). It has one thread, uses the
standard library only and decides nothing: it outlives the node-agent, so it should hardly ever need an upgrade.
SIGTERM stops the cluster: every task is stopped with its grace, at most ``LONGEST_GRACE``; then the shepherd ends. Such
ends have a reason of their own, because the tasks are not to blame.

An order of steps makes ``kill -9`` harmless: intent, spawn, pid; and end, reap. Each step is in the journal before the
next one.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import sys
from collections import deque

from grass import trace
from grass.model.exhaustive import assert_never
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import NodeHome
from grass.system import clock, process_memory
from node.runtime import control_groups, guard
from node.runtime.adoption import MARK, adopt
from node.runtime.attempts import Attempt, Folders
from node.runtime.endings import Endings
from node.runtime.isolation import groups, privilege
from node.runtime.isolation.groups import Groups
from node.runtime.isolation.service import IsolationService
from node.runtime.isolation.tasks import IsolatedTasks
from node.runtime.journal import Journal, replay
from node.runtime.journal_entries import ForgetEntry, IntentEntry, spawn_entries
from node.runtime.kept_memory import KeptMemory
from node.runtime.parallelism import ParallelismLimits
from node.runtime.segment_watch import SegmentWatch
from node.runtime.server import Client, Server
from node.runtime.shepherd_messages import (
    UNLIMITED,
    AttemptEvents,
    AttemptList,
    DropLaunches,
    ForgetAttempts,
    KeepMemory,
    LaunchLimits,
    LetGo,
    ListAttempts,
    NewAttempt,
    Ping,
    Pong,
    ProcessLaunch,
    Request,
    StartAttempts,
    StopAttempts,
    StopOrder,
    StopWith,
    WatchAttempts,
)
from node.runtime.spawn import CannotStartError, spawn
from node.runtime.timers import Timers
from node.runtime.upkeep import Upkeep

LONGEST_GRACE = 10.0
TURN = 0.005
"""Seconds of spawning before ends and messages are handled again."""
HOLD_STARTED = 0.003
"""Seconds that the event of a start waits for the end of the same attempt: tiny tasks cause one event, not two."""
INTERVAL = 0.01
"""Least seconds between two batches of ends. The first end is sent at once, quickly following ones together."""
MAKE_AHEAD = 0.003
"""Seconds after a report until the folder of the next job is made. By then the others have passed the report on."""
HOUSEKEEPING = 1.0
PREPARE = 0.03
"""Seconds after a start until the next isolated one is prepared: what has just started should have the cores first."""

_STOPPED = Reason(ReasonCode.NODE_STOPPED, "its node was shut down, or the node's shepherd was stopped").to_wire()

log = logging.getLogger(__name__)


class Shepherd:
    """One instance, in one thread. What it does next is in ``run``: take messages and ends, start, publish."""

    def __init__(self, config: NodeHome, keeper: guard.Keeper, lock: int, limits: Groups | None = None) -> None:
        """``lock``: descriptor of this shepherd's lock. ``limits``: where users are isolated."""
        self._folders = Folders(str(config.node_dir / "attempts"))
        self._selector = selectors.DefaultSelector()
        self._timers = Timers()
        self._launches: dict[str, ProcessLaunch] = {}
        self._bounds: dict[str, LaunchLimits] = {}
        self._kept: dict[str, int] = {}
        """Launch → bytes in /dev/shm that are kept of each task."""
        self._stop_signals: dict[str, int] = {}
        """Launch → what stops its tasks, if that is not TERM."""
        self._limits = ParallelismLimits()
        self._queue: deque[str] = deque()
        """Keys of attempts to spawn now."""
        self._changed: dict[str, Attempt] = {}
        self._publish_at: float | None = None
        self._published = 0.0
        self._housekeeping = self._preparing = False
        self._ending = self._asked_to_end = False
        self._watch_signals()
        path = config.node_dir / "shepherd.journal"
        isolated = config.node.isolate is not None
        self._attempts = adopt(replay(path), keeper, clock.boot_id(), self._folders, isolated=isolated)
        self._journal = Journal(path, clock.boot_id(), keeper.guard)
        self._journal.rewrite(self._attempts.values())
        memory = KeptMemory(config.node_dir / "kept-memory.json")
        self._endings = Endings(
            self._journal, self._folders, keeper, self._timers, self._selector, self._note, memory, self._keeps
        )
        self._segments = SegmentWatch(self._timers, self._selector, self._endings.look_at_memory)
        self._upkeep = Upkeep(self._attempts, self._endings, self._journal, self._folders, keeper)
        self._tasks: IsolatedTasks | None = None
        if limits is not None:
            found = self._attempts.values()
            self._tasks = IsolatedTasks(config, self._folders, os.getegid(), self._selector, lock, limits, found)
            self._endings.on_end = self._end_isolated
        for attempt in list(self._attempts.values()):
            if attempt.ended is None:
                self._limits.add_running(attempt.launch, attempt.key)
            self._endings.resume(attempt)
        self._server = Server(str(config.socket("shepherd")), self._selector, self._on_request, self._on_gone)
        self._isolation: IsolationService | None = None
        if self._tasks:
            self._isolation = IsolationService(self._tasks, self._attempts, self._folders, self._server.reply)
            self._endings.on_other = self._isolation.reaped
            self._prepare()
        self._keep_house_soon()

    def run(self) -> int:
        """Run until the shepherd was asked to end and every task has ended. Return the exit code."""
        while not self._ending or self._endings.mains:
            for key, events in self._selector.select(self._patience()):
                key.data(events)
            self._start_some()
            self._timers.run(clock.steady())
            self._publish()
        self._server.close()
        self._endings.memory.kept.end()
        self._journal.sync()
        return 0

    def _patience(self) -> float | None:
        if self._queue:
            return 0.0
        times = [due for due in (self._timers.due, self._publish_at) if due is not None]
        return max(0.0, min(times) - clock.steady()) if times else None

    # signals

    def _watch_signals(self) -> None:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_term)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._selector.register(reader, selectors.EVENT_READ, lambda _: self._on_signal(reader))

    def _on_term(self, *_: object) -> None:
        self._asked_to_end = True

    def _on_signal(self, reader: int) -> None:
        os.read(reader, 4096)
        if self._asked_to_end:  # first: a machine that goes down may have sent TERM to the tasks as well
            self._asked_to_end = False
            self._end()
        self._endings.reap()

    def _end(self, grace: float = LONGEST_GRACE) -> None:
        """Stop all tasks, then end. Drop attempts that were not spawned: they can be asked for again."""
        if not self._ending:
            log.info("ending %d tasks", len(self._endings.mains))
        self._ending = True
        for key in [*self._queue, *self._limits.waiting()]:
            if self._attempts[key].ended is None:
                del self._attempts[key]
        self._queue.clear()
        mains = self._endings.mains.values()
        self._endings.stop([(each, min(grace, self._grace(each)), _STOPPED) for each in mains])

    def _keeps(self, attempt: Attempt) -> int:
        return 0 if self._ending else self._kept.get(attempt.launch, 0)

    def _grace(self, attempt: Attempt) -> float:
        launch = self._launches.get(attempt.launch)
        return launch.grace if launch else LONGEST_GRACE

    # requests

    def _on_request(self, client: Client, request: Request) -> None:
        match request:
            case ProcessLaunch() | LaunchLimits() | KeepMemory() | StopWith():
                self._define(request)
            case LetGo(tasks):
                self._let_go(tasks)
            case DropLaunches(names):
                self._drop(names)
            case StartAttempts(starts):
                self._start(starts)
            case StopAttempts(stops):
                self._stop(stops)
            case ForgetAttempts(keys):
                self._forget(keys)
            case Ping():
                self._server.reply(client, Pong())
            case ListAttempts() | WatchAttempts():
                client.watches = client.watches or isinstance(request, WatchAttempts)
                self._list(client)
            case _ if self._isolation is not None:
                self._isolation.handle(client, request)
            case _:
                log.warning("ignored a request, because no users are isolated: %.200r", request)

    def _define(self, launch: ProcessLaunch | LaunchLimits | KeepMemory | StopWith) -> None:
        match launch:
            case ProcessLaunch():
                self._launches[launch.name] = launch
                self._queue += self._limits.set_width(launch.name, launch.width)
            case LaunchLimits():
                self._bounds[launch.name] = launch
            case KeepMemory(name, most):
                self._kept[name] = most
            case StopWith(name, number):
                self._stop_signals[name] = number
            case _:
                assert_never(launch)

    def _let_go(self, tasks: list[str]) -> None:
        self._endings.memory.kept.let_go(tasks)
        if self._tasks:
            self._tasks.let_go(tasks)

    def _drop(self, names: list[str]) -> None:
        for name in names:
            self._launches.pop(name, None)
            self._bounds.pop(name, None)
            self._stop_signals.pop(name, None)
            self._limits.drop(name)
            if self._kept.pop(name, 0):
                self._endings.memory.kept.drop(name)
                if self._tasks:
                    self._tasks.drop(name)

    def _on_gone(self, client: Client) -> None:
        if self._isolation:
            self._isolation.gone(client)

    def _list(self, client: Client) -> None:
        self._journal.flush()
        self._server.reply(client, AttemptList([attempt.report() for attempt in self._attempts.values()]))

    def _forget(self, keys: list[str]) -> None:
        gone = [key for key in dict.fromkeys(keys) if key in self._attempts and self._attempts[key].ended is not None]
        for key in gone:
            del self._attempts[key]
            self._changed.pop(key, None)
        if gone:
            self._journal.add(ForgetEntry(gone))

    def _stop(self, stops: list[StopOrder]) -> None:
        known = self._attempts
        self._endings.stop([(known[key], float(grace), reason) for key, grace, reason in stops if key in known])

    # starting

    def _start(self, starts: list[NewAttempt]) -> None:
        trace.mark("shepherd: start read")
        for key, launch, env in starts:
            if key not in self._attempts and not self._ending:
                self._attempts[key] = Attempt(key, launch, env)
                self._queue += self._limits.add(launch, key)

    def _start_some(self) -> None:
        """Spawn attempts for one turn. An intent is written before each spawn."""
        limit = clock.steady() + TURN
        while self._queue and clock.steady() < limit:
            attempt = self._attempts.get(self._queue[0])
            if attempt and attempt.ended is None:
                if not self._journal.write(IntentEntry(attempt.key)):
                    log.error("cannot write the journal (is the disk full?); no task starts until that works")
                    self._selector.select(0.1)
                    return
                self._spawn(attempt)
            self._queue.popleft()

    def _spawn(self, attempt: Attempt) -> None:
        trace.mark("shepherd: intent written")
        try:
            attempt.pid = self._process(attempt)
        except CannotStartError as error:
            attempt.code, attempt.reason = error.code, error.reason.to_wire()
            self._endings.finish(attempt)
            return
        trace.mark("shepherd: spawned")
        attempt.returned = clock.steady()
        attempt.started = clock.wall()
        attempt.env = {}
        attempt.stop_signal = self._stop_signals.get(attempt.launch, attempt.stop_signal)
        self._journal.write(*spawn_entries(attempt))
        self._endings.mains[attempt.pid] = attempt
        self._note(attempt)

    def _process(self, attempt: Attempt) -> int:
        launch = self._launches.get(attempt.launch)
        if launch is None:
            raise CannotStartError(126, f"cannot start: the launch {attempt.launch} is not defined")
        try:
            scratch = self._folders.make(attempt.key)
        except OSError as error:
            raise CannotStartError(126, f"cannot make its scratch folder: {error}") from error
        env = {**launch.env, **attempt.env, MARK: scratch}
        attempt.began = clock.steady()
        if self._tasks:
            self._prepare_soon()
            bounds = self._bounds.get(attempt.launch, UNLIMITED)
            return self._tasks.start(attempt, launch, bounds, env, scratch)
        stdout, stderr = self._folders.path(attempt.key, "stdout"), self._folders.path(attempt.key, "stderr")
        return spawn(launch.argv, env, launch.cwd or scratch, stdout, stderr)

    def _end_isolated(self, attempt: Attempt) -> None:
        assert self._tasks is not None
        self._tasks.end(attempt, keep=self._keeps(attempt) > 0)

    def _prepare_soon(self) -> None:
        if not self._preparing:
            self._preparing = True
            self._timers.at(clock.steady() + PREPARE, self._prepare)

    def _prepare(self) -> None:
        self._preparing = False
        if self._queue:
            self._prepare_soon()
        elif self._tasks:
            self._tasks.prepare()

    # housekeeping and events

    def _keep_house_soon(self) -> None:
        if not self._housekeeping:
            self._housekeeping = True
            self._timers.at(clock.steady() + HOUSEKEEPING, self._keep_house)

    def _keep_house(self) -> None:
        self._housekeeping = False
        self._folders.make_ahead()
        if self._tasks:
            self._tasks.end_bombs()
            self._tasks.mending.look()
            self._tasks.sweep(self._endings.mains.values())
            self._tasks.expire()
        if self._upkeep.round():
            self._keep_house_soon()

    def _note(self, attempt: Attempt) -> None:
        self._changed[attempt.key] = attempt
        now = clock.steady()
        due = now + HOLD_STARTED if attempt.ended is None else now
        due = max(due, self._published + INTERVAL)
        self._publish_at = due if self._publish_at is None else min(due, self._publish_at)
        if attempt.ended is not None:
            self._queue += self._limits.leave(attempt.launch, attempt.key)
            if attempt.launch not in self._launches:
                self._limits.drop(attempt.launch)
        self._keep_house_soon()

    def _publish(self) -> None:
        """Push changes to clients that watch, after they are in the journal."""
        if self._publish_at is None or self._publish_at > clock.steady():
            return
        self._journal.flush()
        changed, self._changed = self._changed.values(), {}
        self._server.push(AttemptEvents([attempt.report() for attempt in changed]))
        self._publish_at = None
        if any(attempt.ended is not None for attempt in changed):
            self._published = clock.steady()
        if not self._folders.made_ahead:
            self._timers.at(clock.steady() + MAKE_AHEAD, self._folders.make_ahead)


def main(path: str) -> int:
    """Run the shepherd under its guard. Return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    config = NodeHome.load(path)
    limits: Groups | None = None
    if config.node.isolate:
        owner = os.stat(config.home)  # noqa: PTH116
        privilege.lower(owner.st_uid, owner.st_gid)
        limits = groups.find()  # called by the guard, whose children belong to its group
    config.node_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if limits is not None:
        control_groups.write_limits(config.node_dir, limits.describe())
    lock = str(config.node_dir / "shepherd.lock")

    def live(keeper: guard.Keeper) -> int:
        guard.become_subreaper()
        held = _hold_patiently(lock)
        process_memory.keep_imported()
        return Shepherd(config, keeper, held, limits).run()

    return guard.run(lock, live)


def _hold_patiently(lock: str) -> int:
    """Lock the file. A task that was being spawned when the last shepherd was killed holds it until its program
    runs."""
    deadline = clock.steady() + 5.0
    while True:
        try:
            return guard.hold(lock)
        except BlockingIOError:
            if clock.steady() > deadline:
                raise
            clock.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
