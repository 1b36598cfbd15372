"""Decides whether a write waits until the standby has it. Pure; one for each connection to a master with a standby.

`WAIT` says whether a replica has the write. `min-replicas-to-write` does not: it only says that a replica answered
within some seconds. A process that goes on alone notes so in the store before it acknowledges, and removes the note
after it waits again. A replica without such a note therefore knows: whoever wrote then waited. Used by
``redis_backend``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from grass.model.witness import counts

PATIENCE = 4.0
"""Seconds that a write waits for the standby. Then the standby counts as away, and the process goes on alone.

More than nodes need to hear of the master again, so that `grass cluster failover` can tell a master that went on alone
from one that ended (``grass.provision.on_premises.failover_check``). Less than the time limit of a connection."""
AGAIN = 1.0
"""Seconds between two looks whether a standby that is away is back."""
PROBE = 0.05
"""Seconds that such a look waits."""


class StandbyGate:
    """The state of one process. ``needed``: without the standby, writes are refused. ``witness``: there is one, and a
    confirmation counts only within the lease. Safe for several threads."""

    def __init__(self, *, needed: bool, witness: bool = False) -> None:
        self._needed, self.witness = needed, witness
        self._lock = threading.Lock()
        self._alone = False

    @property
    def alone(self) -> bool:
        return self._alone

    @property
    def patience(self) -> float:
        """Seconds for which a write waits now; 0: it does not."""
        return 0.0 if self._alone else PATIENCE

    def confirmed(self, replicas: int, sent: float, now: float) -> bool:
        """Return whether a write counts that so many replicas have. Times are of a steady clock."""
        return replicas > 0 and (not self.witness or counts(sent, now, confirmed=True, consent=False))

    def missed(self, note: Callable[[], bool], rejoin: Callable[[], object]) -> bool:
        """The standby has not got a write in time. Return whether the write counts. ``note``: say in the store that
        this process goes on alone, False: it may not; ``rejoin``: begin to look whether the standby is back."""
        if self._needed:
            return False
        with self._lock:
            if not self._alone:
                if not note():
                    return False
                self._alone = True
                rejoin()
        return True

    def back(self, forget: Callable[[], object]) -> None:
        """The standby has everything up to now: wait again. ``forget``: remove the note, after that."""
        with self._lock:
            self._alone = False
            forget()


@dataclass(frozen=True)
class Followed:
    """What a connection to a master with a standby needs. Keys: ``alone`` of those that go on alone, ``consent`` of the
    witness's consent, without which nobody may; empty: there is no witness."""

    gate: StandbyGate
    alone: str
    consent: str = ""
