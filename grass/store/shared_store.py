"""The key-value store that the tasks of one job share, as a node-agent uses it. In redis, so that it survives nodes.

Values expire. Compare-and-set is one atomic step. Nobody but tasks reads what is here. Used by
``node.agent`` and ``node.membership``.
"""

from __future__ import annotations

import math
import threading

from grass.store.backend import Backend, Listener
from grass.store.keys import Keys
from grass.wire.codec import encode
from grass.wire.membership_api import SHARED_VALUE, SharedValue

ABSENT = SharedValue("", "")


AT_ONCE = 16
"""Most calls to the store at once: a node may have few connections."""


class SharedStore:
    """The values that tasks share. Safe for several threads. Every method raises UnreachableError while redis is away.

    ``space``: of a job (``grass.api.task_token.shared_space``). Nodes without a part of the job cannot compute it."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys
        self._free = threading.BoundedSemaphore(AT_ONCE)

    def get(self, space: str, key: str) -> SharedValue:
        """Return the value; ``ABSENT`` if there is none."""
        return self._read(self._keys.shared(space, key))[0]

    def seconds_left(self, space: str, key: str) -> float | None:
        """Return the time until a value expires; None: there is none."""
        with self._free:
            return self._backend.seconds_left(self._keys.shared(space, key))

    def listen(self) -> Listener:
        """Open a listener for ``channel`` of jobs: it receives the ``name`` of each value that changed."""
        return self._backend.listen()

    def channel(self, space: str) -> str:
        return self._keys.shared_channel(space)

    def name(self, space: str, key: str) -> str:
        return self._keys.shared(space, key)

    def put(self, space: str, key: str, new: SharedValue, ttl: float, expect: str | None) -> bool:
        """Store ``new`` for ``ttl`` seconds. With ``expect``, only if the present revision is this one.

        Return whether it was stored.
        """
        name, channel = self._keys.shared(space, key), self._keys.shared_channel(space)
        text, seconds = encode(new), max(1, math.ceil(ttl))
        if expect is None:
            with self._free:
                self._backend.put(name, text, seconds, channel)
            return True
        found, old = self._read(name) if expect else (ABSENT, None)
        if found.revision != expect:
            return False
        with self._free:
            return self._backend.put_if(name, text, seconds, old, channel)

    def delete(self, space: str, key: str) -> bool:
        """Return whether there was such a key."""
        with self._free:
            return self._backend.delete(self._keys.shared(space, key), self._keys.shared_channel(space))

    def _read(self, name: str) -> tuple[SharedValue, str | None]:
        with self._free:
            text = self._backend.get(name)
        return (SHARED_VALUE.decode(text), text) if text else (ABSENT, None)
