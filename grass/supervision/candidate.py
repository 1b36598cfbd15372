"""The standby that takes over by itself: it stops following, asks the witness for its vote, and says that it has it.

``grass-takeover@.path`` of systemd waits for the file ``ELECTED`` and starts what makes this machine the master. The
rules are in ``grass.model.witness``. Used by ``standby``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Protocol

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.model.witness import Next, next_of
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.supervision.predecessor import term_of
from grass.supervision.witness_call import ask_witness
from grass.system import clock
from grass.system.private_file import write_private
from grass.wire.node_api import VOTE, NodeCall
from grass.wire.witness import AskVote, WitnessAnswer

FOLDER = "standby"
ELECTED = f"{FOLDER}/elected"
"""File in the cluster's folder: the witness gave its vote, and this machine becomes the master, also after a reboot."""
_LOOK = 0.5
_CONNECTS = 20.0
"""Seconds in which it hears of the master again after it follows again, also on a busy machine."""

log = logging.getLogger("grass.standby")


class Follows(Protocol):
    """The follower of the master. ``whole_since``: run id of the replica with which it last had everything; empty: it
    never had since this daemon started."""

    @property
    def heard_at(self) -> float: ...
    @property
    def whole_since(self) -> str: ...
    def leave(self) -> None: ...
    def follow(self) -> None: ...


Ask = Callable[[ClusterConfig, RedisBackend, str, NodeCall[AskVote, WitnessAnswer], AskVote], WitnessAnswer]


class Candidate:
    """A standby that may take over. ``ask``: as ``ask_witness``."""

    def __init__(self, config: ClusterConfig, follower: Follows, ask: Ask = ask_witness) -> None:
        self._config, self._follower, self._ask = config, follower, ask
        self._keys = Keys(config.key_prefix)
        self._left: float | None = None
        self._listens_since = clock.steady()

    def run(self) -> None:
        secrets = Secrets.load(self._config.home)
        while not (Path(self._config.home) / ELECTED).exists():
            try:
                with closing(open_backend(self._config, secrets, "admin")) as backend:
                    while self._turn(backend):
                        clock.sleep(_LOOK)
            except (GrassError, OSError) as error:
                log.warning("this standby does not take over: %s", error)
                self._follow_again()
            clock.sleep(_LOOK)
        self._follower.leave()

    def _turn(self, backend: RedisBackend) -> bool:
        """Return whether to go on. Raises GrassError."""
        known = self._known()
        if known is None or backend.hget(self._keys.nodes, known[0]) is None:
            return True  # a node that has not joined yet gives no vote
        now, heard = clock.steady(), max(self._follower.heard_at, self._listens_since)
        match next_of(now, heard, self._left, whole=self._is_whole(backend)):
            case Next.LEAVE if self._left is None:
                log.warning("the master is silent for %.0f s; following it no more, to take over", now - heard)
                self._follower.leave()
                self._left = clock.steady()
            case Next.ASK:
                return not self._elected(backend, known)
            case _:
                pass
        return True

    def _known(self) -> tuple[str, str] | None:
        """Return the witness and the own address, as the master said last; None: no failover is automatic."""
        try:
            master = ClusterConfig.load(Path(self._config.home) / FOLDER / "master" / "cluster.json")
        except FileNotFoundError:
            return None
        found = master.standby
        return (found.witness, found.address) if found is not None and found.witness else None

    def _is_whole(self, backend: RedisBackend) -> bool:
        """A replica that was restarted since may have lost what it had not written yet."""
        return backend.run_id() == self._follower.whole_since and not backend.writes_first_log()

    def _elected(self, backend: RedisBackend, known: tuple[str, str]) -> bool:
        witness, address = known
        if not self._is_whole(backend):
            self._follow_again()
            return False
        asked = AskVote(term_of(backend, self._keys.restored), address)
        answer = self._ask(self._config, backend, witness, VOTE, asked)
        if answer.why:
            log.warning("witness %s gives no vote: %s; following again", witness, answer.why)
            self._follow_again()
            return False
        log.warning("witness %s gave its vote: this machine becomes the master", witness)
        write_private(Path(self._config.home) / ELECTED, f"{witness}\n")
        return True

    def _follow_again(self) -> None:
        self._left, self._listens_since = None, clock.steady() + _CONNECTS
        self._follower.follow()
