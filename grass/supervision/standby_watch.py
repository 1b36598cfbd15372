"""Looks every second how far the standby is, and says so in the store and in the cluster's events.

Writers decide by themselves whether they wait (``grass.store.standby_gate``). Used by ``master.agent.__main__``, in a
thread, and by ``master.api.status``.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from grass.config import ClusterConfig, Secrets, StandbyConfig
from grass.errors import GrassError
from grass.model.event_kind import EventKind
from grass.store.backend import Op
from grass.store.connect import open_backend
from grass.store.event_log import logged
from grass.store.keys import RECORD, Keys
from grass.store.redis_backend import RedisBackend
from grass.store.redis_server import Replica, Replication
from grass.supervision.witness_call import ask_witness
from grass.supervision.witness_keeper import Keeper
from grass.system import clock
from grass.wire.codec import encode
from grass.wire.event_record import EventRecord
from grass.wire.node_api import MASTER_LIVES
from grass.wire.standby import StandbyView

IN_STEP, BEHIND, AWAY = "in step", "behind", "away"
LOOK = 1.0
NOTED = 10.0
"""Seconds between two writes of the same state."""
_BEHIND = 3.0
"""Seconds from which a standby counts as behind. A replica reports each second how far it is."""
_KEPT = 3600
_UNSAID = 100

log = logging.getLogger("grass.standby")


@dataclass(frozen=True)
class Standing:
    """How far a standby is. ``behind``: seconds of writes that it lacks."""

    state: str
    behind: float


@dataclass
class Progress:
    """Times at which the master's offset was what, by its own monotonic clock. It says since when a replica lacks
    writes."""

    _seen: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def note(self, offset: int, now: float) -> None:
        if not self._seen or offset > self._seen[-1][0]:
            self._seen.append((offset, now))

    def behind(self, offset: int, now: float) -> float:
        """Return for how many seconds writes behind ``offset`` have been waiting."""
        missing = next((at for seen, at in self._seen if seen > offset), None)
        return 0.0 if missing is None else now - missing


def standing(info: Replication, progress: Progress, now: float, last: int = 0) -> Standing:
    """Return how far the replica is. Pure, but for ``progress``. ``info``: of ``RedisServer.replication``. ``last``:
    the offset that the replica had when it was last seen."""
    progress.note(info.offset, now)
    replica = _replica(info)
    if replica is None or not replica.online:
        return Standing(AWAY, progress.behind(last, now))
    behind = progress.behind(replica.offset, now)
    return Standing(IN_STEP, 0.0) if behind <= _BEHIND else Standing(BEHIND, behind)


def _replica(info: Replication) -> Replica | None:
    return max(info.replicas, key=lambda each: each.offset, default=None)


def watch_standby(config: ClusterConfig, secrets: Secrets) -> None:
    """Start the watcher, and return at once. A master without a standby removes what it said of an earlier one."""
    if config.redis.embedded and config.tls:
        threading.Thread(target=_run, args=(config, secrets), name="standby", daemon=True).start()


def _run(config: ClusterConfig, secrets: Secrets) -> None:
    with closing(open_backend(config, secrets, "admin")) as backend:
        keeper = None
        if config.standby is not None and (witness := config.standby.witness):
            keys = Keys(config.key_prefix)
            ask = partial(ask_witness, config, backend, witness, MASTER_LIVES)
            keeper = Keeper(backend, keys, config.standby, ask)
        watch = Watch(backend, Keys(config.key_prefix), config.standby)
        while True:
            try:
                if keeper is not None:
                    keeper.look(clock.steady())
                    watch.why = keeper.why
            except GrassError as error:
                log.debug("%s", error)
            try:
                watch.look(clock.steady(), clock.wall())
                if config.standby is None:
                    return
            except GrassError as error:
                log.debug("%s", error)  # redis is away, or its disk is full
            clock.sleep(LOOK)


class Watch:
    """The watcher. ``standby`` None: there is none."""

    def __init__(self, backend: RedisBackend, keys: Keys, standby: StandbyConfig | None) -> None:
        self._backend, self._keys, self._standby = backend, keys, standby
        self._progress = Progress()
        self._last = 0
        self._said, self._said_at = "", float("-inf")
        self._unsaid: deque[Op] = deque(maxlen=_UNSAID)
        """Events that the store refused: without its standby it may refuse all writes."""
        self.why, self._said_why = "", ""

    def look(self, now: float, wall: float) -> None:
        if self._standby is None:
            self._backend.apply([("DEL", self._keys.standby)])
            return
        self._forget_dead()
        info = self._backend.replication()
        found = standing(info, self._progress, now, self._last)
        replica = _replica(info)
        self._last = max(self._last, replica.offset if replica else 0)
        changed = found.state != self._said  # also if the store refuses to take it
        said = not changed and self.why == self._said_why and not self._unsaid
        if said and found.state == IN_STEP and now - self._said_at < NOTED:
            return
        view = StandbyView(
            self._standby.address,
            found.state,
            round(found.behind, 1),
            self._standby.url,
            wall,
            self._standby.witness,
            self.why,
        )
        ops: list[Op] = [("HSET", self._keys.standby, RECORD, encode(view))]
        if changed:
            text = event_text(self._standby, found)
            log.warning("%s", text)
            self._unsaid.append(logged(self._keys, EventRecord(wall, EventKind.STANDBY.value, text)))
        self._said = found.state
        self._backend.apply([*ops, *self._unsaid])
        self._unsaid.clear()
        self._said_at, self._said_why = now, self.why

    def _forget_dead(self) -> None:
        """Forget processes that went on alone and have ended. What they wrote comes before this in the log."""
        gone = [
            name for name in self._backend.hgetall(self._keys.alone) if not Path("/proc", name.split(":")[0]).exists()
        ]
        if gone:
            self._backend.apply([("HDEL", self._keys.alone, *gone)])


def event_text(standby: StandbyConfig, found: Standing) -> str:
    """Return what the state means, for people."""
    who = f"standby {standby.address}"
    if found.state == IN_STEP:
        return f"{who}: in step; what is acknowledged is on both machines"
    if found.state == BEHIND:
        return f"{who}: {found.behind:.0f} s behind; writes wait for it"
    if standby.needed:
        return f"{who}: away; writes are refused until it is back, as `standby.when_away` says"
    return f"{who}: away; the master goes on alone, and what is acknowledged now is lost if the master is"
