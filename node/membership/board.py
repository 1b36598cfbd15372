"""Key-value store and barriers of a job, over the store that all its nodes share (ADR 14).

Called by the API's threads. A request that waits looks again every ``GLANCE`` seconds: it waits for tasks of other
nodes, for moments only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from grass import clock
from grass.entropy import request_id
from grass.errors import ConflictError, InputError
from grass.store.shared_store import ABSENT, SharedStore
from grass.wire.keys import AttemptKey
from grass.wire.membership_api import LONGEST_TTL, MOST_VALUE, BarrierState, KeyChange, KeyState, SharedValue
from node.membership.memberships import Memberships

GLANCE = 0.05
MOST_KEYS = 4096
"""Keys of one job that this node has written and that have not expired."""
BARRIER_TTL = 3600.0


class Board:
    def __init__(self, store: SharedStore, memberships: Memberships, most_keys: int = MOST_KEYS) -> None:
        self._store = store
        self._memberships = memberships
        self._most_keys = most_keys
        self._lock = threading.Lock()
        self._expiry: dict[str, dict[str, float]] = {}
        """Job id → key → steady time at which it expires at the latest."""

    def forget(self, job_ids: Sequence[str]) -> None:
        with self._lock:
            for job_id in job_ids:
                self._expiry.pop(job_id, None)

    def get(self, task: AttemptKey, key: str, revision: str | None, wait: float) -> KeyState:
        """Return a key. With ``revision`` (``none``: no such key), wait for another one."""
        known = "" if revision == "none" else revision

        def look() -> SharedValue | None:
            found = self._store.get(task.job_id, key)
            return found if found.revision != known else None

        return self._state(task, key, _wait(look, wait) or self._store.get(task.job_id, key))

    def put(self, task: AttemptKey, key: str, change: KeyChange) -> KeyState:
        if len(change.value) > MOST_VALUE:
            raise InputError(f"value: must have at most {MOST_VALUE} characters, got {len(change.value)}")
        if not 0 < change.ttl <= LONGEST_TTL:
            raise InputError(f"ttl: must be above 0 and at most {LONGEST_TTL:g} seconds, got {change.ttl:g}")
        self._count(task.job_id, key, change.ttl)
        new = SharedValue(request_id(), change.value)
        stored = self._store.put(task.job_id, key, new, change.ttl, change.expect)
        return self._state(task, key, new if stored else self._store.get(task.job_id, key), stored)

    def delete(self, task: AttemptKey, key: str) -> KeyState:
        stored = self._store.delete(task.job_id, key)
        with self._lock:
            self._expiry.get(task.job_id, {}).pop(key, None)
        return self._state(task, key, ABSENT, stored)

    def barrier(self, task: AttemptKey, name: str, wait: float) -> BarrierState:
        """Join a barrier and wait until all members of the present generation have joined it."""
        begun = self._memberships.world(task, -1, 0)
        if begun.rank is None:
            raise ConflictError(f"task {task.task}: it is not a member of generation {begun.generation}; wait for it")
        place = f"barrier/{task.component}/{begun.generation}/{name}"
        expected = [f"{each.task}/{each.attempt}" for each in begun.members]
        self.put(task, f"{place}/{task.task}/{task.attempt}", KeyChange(value="here", ttl=BARRIER_TTL))
        missing = list(expected)

        def look() -> bool | None:
            """Look for the first that is missing only: with hundreds of members, hundreds of tasks do this."""
            while missing and self._has_come(task.job_id, place, missing[0]):
                missing.pop(0)
            return not missing or self._memberships.world(task, -1, 0).generation != begun.generation or None

        _wait(look, wait)
        missing = [each for each in missing if not self._has_come(task.job_id, place, each)]
        return BarrierState(
            generation=begun.generation,
            epoch=begun.epoch,
            passed=not missing,
            arrived=len(expected) - len(missing),
            expected=len(expected),
        )

    def _has_come(self, job_id: str, place: str, member: str) -> bool:
        return self._store.get(job_id, f"{place}/{member}") is not ABSENT

    def _count(self, job_id: str, key: str, ttl: float) -> None:
        """Note a key that is written. Raises ConflictError: the job has too many."""
        now = clock.steady()
        with self._lock:
            keys = self._expiry.setdefault(job_id, {})
            if key not in keys and len(keys) >= self._most_keys:
                for name in [name for name, end in keys.items() if end < now]:
                    del keys[name]
                if len(keys) >= self._most_keys:
                    raise ConflictError(
                        f"job {job_id}: this node has written {self._most_keys} keys; delete some, or wait"
                    )
            keys[key] = now + ttl

    def _state(self, task: AttemptKey, key: str, found: SharedValue, stored: bool = False) -> KeyState:
        world = self._memberships.world(task, -1, 0)
        value = found.value if found.revision else None
        return KeyState(
            generation=world.generation,
            epoch=world.epoch,
            key=key,
            value=value,
            revision=found.revision,
            stored=stored,
        )


def _wait(look: Callable[[], SharedValue | bool | None], seconds: float) -> SharedValue | None:
    """Call ``look`` until it returns something, for so long at most."""
    until = clock.steady() + seconds
    while (found := look()) is None and clock.steady() < until:
        clock.sleep(GLANCE)
    return found if isinstance(found, SharedValue) else None
