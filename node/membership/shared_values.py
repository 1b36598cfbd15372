"""Key-value store and barriers of a job, over the store that all its nodes share.

Called by the API's threads. A request that waits is woken by each change of what it waits for (``watch``).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from grass.api.task_token import shared_space
from grass.errors import ConflictError, InputError, NotFoundError
from grass.store.shared_store import ABSENT, SharedStore
from grass.system import clock
from grass.system.entropy import request_id
from grass.wire.keys import AttemptKey
from grass.wire.membership_api import LONGEST_TTL, MOST_VALUE, BarrierState, KeyChange, KeyState, SharedValue, World
from node.membership.memberships import Memberships
from node.membership.watch import Watch

MOST_KEYS = 4096
"""Keys of one job that this node has written and that have not expired."""
BARRIER_TTL = 3600.0


class SharedValues:
    """Values and barriers of jobs. Its methods raise UnreachableError while redis is away."""

    def __init__(self, store: SharedStore, memberships: Memberships, most_keys: int = MOST_KEYS) -> None:
        self._store = store
        self._memberships = memberships
        self._watch = Watch(store)
        self._most_keys = most_keys
        self._lock = threading.Lock()
        self._expiry: dict[str, dict[str, float]] = {}
        """Job id → key → steady time at which it expires at the latest."""
        self._spaces: dict[str, str] = {}
        """Job id → where its values are, of the jobs that used them."""

    def changed(self, job_ids: Sequence[str]) -> None:
        """Take the news that memberships of jobs have changed: they end barriers."""
        for job_id in job_ids:
            if space := self._spaces.get(job_id):
                self._watch.wake(space)

    def forget(self, job_ids: Sequence[str]) -> None:
        """Forget jobs. Their requests that wait end."""
        with self._lock:
            for job_id in job_ids:
                self._expiry.pop(job_id, None)
            spaces = [space for job_id in job_ids if (space := self._spaces.pop(job_id, None))]
        for space in spaces:
            self._watch.forget(space)

    def get(self, task: AttemptKey, key: str, revision: str | None, wait: float) -> KeyState:
        """Return a key. With ``revision`` (``none``: no such key), wait for another one."""
        known = "" if revision == "none" else revision
        space = self._space(task)
        found = self._store.get(space, key)
        if wait <= 0 or found.revision != known:
            return self._state(task, key, found)
        until = clock.steady() + wait
        with self._watch.waiting(space) as waiter:
            waiter.name = self._store.name(space, key)
            while (found := self._store.get(space, key)).revision == known and not waiter.over:
                seconds = until - clock.steady()
                if seconds <= 0:
                    break
                expires = self._store.seconds_left(space, key) if known else None
                waiter.wait(seconds if expires is None else min(seconds, expires))
        return self._state(task, key, found)

    def put(self, task: AttemptKey, key: str, change: KeyChange) -> KeyState:
        if len(change.value) > MOST_VALUE:
            raise InputError(f"value: must have at most {MOST_VALUE} characters, got {len(change.value)}")
        if not 0 < change.ttl <= LONGEST_TTL:
            raise InputError(f"ttl: must be above 0 and at most {LONGEST_TTL:g} seconds, got {change.ttl:g}")
        self._count(task.job_id, key, change.ttl)
        new = SharedValue(request_id(), change.value)
        space = self._space(task)
        stored = self._store.put(space, key, new, change.ttl, change.expect)
        return self._state(task, key, new if stored else self._store.get(space, key), stored)

    def delete(self, task: AttemptKey, key: str) -> KeyState:
        stored = self._store.delete(self._space(task), key)
        with self._lock:
            self._expiry.get(task.job_id, {}).pop(key, None)
        return self._state(task, key, ABSENT, stored)

    def barrier(self, task: AttemptKey, name: str, wait: float) -> BarrierState:
        """Join a barrier and wait until all members of the present generation have joined it."""
        begun = self._world(task)
        if begun.rank is None:
            raise ConflictError(f"task {task.task}: it is not a member of generation {begun.generation}; wait for it")
        prefix = f"barrier/{task.component}/{begun.generation}/{name}"
        expected = [f"{prefix}/{each.task}/{each.attempt}" for each in begun.members]
        until = clock.steady() + wait
        space = self._space(task)
        self.put(task, f"{prefix}/{task.task}/{task.attempt}", KeyChange(value="here", ttl=BARRIER_TTL))
        missing = list(expected)
        with self._watch.waiting(space) as waiter:
            while missing:
                waiter.name = self._store.name(space, missing[0])  # with hundreds of members, hundreds of tasks wait
                seconds = until - clock.steady()
                if self._store.get(space, missing[0]) is not ABSENT:
                    missing.pop(0)
                elif seconds <= 0 or waiter.over or self._world(task).generation != begun.generation:
                    break
                else:
                    waiter.wait(seconds)
        missing = [each for each in missing if self._store.get(space, each) is ABSENT]
        return BarrierState(
            generation=begun.generation,
            epoch=begun.epoch,
            passed=not missing,
            arrived=len(expected) - len(missing),
            expected=len(expected),
        )

    def _world(self, task: AttemptKey) -> World:
        return self._memberships.world(task, -1, 0)

    def _space(self, task: AttemptKey) -> str:
        secret = self._memberships.secret(task.job_id)
        if secret is None:
            raise NotFoundError(f"job {task.job_id}: this node runs no part of it any more")
        space = shared_space(secret)
        with self._lock:
            self._spaces[task.job_id] = space
        return space

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
        world = self._world(task)
        value = found.value if found.revision else None
        return KeyState(
            generation=world.generation,
            epoch=world.epoch,
            key=key,
            value=value,
            revision=found.revision,
            stored=stored,
        )
