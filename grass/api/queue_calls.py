"""Calls about work queues. A part of ``Client``; inside a task, ``grass.queue`` needs no keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from grass.api.requests import Requests, path_of
from grass.api.transport import PlainData
from grass.errors import InputError
from grass.system.entropy import request_id

if TYPE_CHECKING:
    from grass.wire.queue_api import QueueAnswer, QueueView


class QueueCalls(Requests):
    """Work queues. Items are text.

    Steps raise NotFoundError, NotAllowedError for a queue of another user, ConflictError for one that is full, and
    InputError."""

    def queues(self) -> list[QueueView]:
        """Return all queues that this user may see. Raises UnreachableError."""
        from grass.wire.queue_api import QUEUES

        return [*self._get("/v1/queues", QUEUES).queues]

    def queue(self, name: str) -> QueueView:
        """Return a queue with its first 1,000 items: dead letters, then leased and ready ones. Raises NotFoundError."""
        from grass.wire.queue_api import QUEUE

        return self._get(path_of("queues", name), QUEUE)

    def create_queue(self, name: str, lease: float = 600.0, tries: int = 3) -> QueueAnswer:
        """Make a queue; nothing changes if it exists with these settings.

        ``lease``: seconds for which an item belongs to who got it. ``tries``: how often an item is given out. Raises
        ConflictError if it exists with other settings, or this user has too many."""
        return self._step(name, {"step": "create", "lease": lease, "tries": tries})

    def put_items(self, name: str, values: Iterable[str | tuple[str, str]]) -> list[str]:
        """Append values, or pairs of name and value, in steps of 100. Return the names of those that were added: a name
        that is in the queue already is not put again. Raises ConflictError if the queue is full."""
        if isinstance(values, str):
            raise InputError(f"values must be a list of texts, got {values!r}")
        pairs = [(None, each) if isinstance(each, str) else each for each in values]
        items = [{"name": each, "value": value} for each, value in pairs]
        added: list[str] = []
        for start in range(0, len(items), 100):
            step: PlainData = {"step": "put", "items": items[start : start + 100], "id": request_id()}
            added += self._step(name, step).names
        return added

    def get_items(self, name: str, count: int = 1, *, wait: float = 0.0, seconds: float | None = None) -> QueueAnswer:
        """Lease up to ``count`` items. Wait up to 25 seconds for the first one. They are in ``items`` of the answer.

        ``seconds``: of the lease; None: as the queue says. Raises NotFoundError."""
        step: PlainData = {"step": "get", "count": count, "wait": wait, "seconds": seconds, "id": request_id()}
        return self._step(name, step)

    def finish_items(
        self, name: str, lease: str, names: Sequence[str], how: Literal["ack", "retry", "dead"] = "ack"
    ) -> list[str]:
        """End the lease of items. Return the names of those that this user still held. Raises NotFoundError."""
        step: PlainData = {"step": "finish", "lease": lease, "names": [*names], "how": how, "id": request_id()}
        return [*self._step(name, step).names]

    def retry_dead_items(self, name: str, names: Sequence[str] = ()) -> list[str]:
        """Make dead letters ready again (no names: all of them). Return their names. Raises NotFoundError."""
        return [*self._step(name, {"step": "revive", "names": [*names], "id": request_id()}).names]

    def snapshot_queue(self, name: str, snapshot: str) -> QueueAnswer:
        """Keep all items that are not done, as of now, under a name. A queue keeps its 8 newest ones.

        Raises NotFoundError, ConflictError."""
        return self._step(name, {"step": "snapshot", "name": snapshot})

    def restore_queue(self, name: str, snapshot: str) -> QueueAnswer:
        """Replace all items by those of a snapshot. Leases from before have ended. Raises NotFoundError."""
        return self._step(name, {"step": "restore", "name": snapshot, "id": request_id()})

    def delete_queue(self, name: str) -> QueueAnswer:
        """Remove a queue with its items and snapshots. Raises NotFoundError."""
        return self._step(name, {"step": "delete", "id": request_id()})

    def _step(self, name: str, step: PlainData) -> QueueAnswer:
        from grass.wire.queue_api import QUEUE_ANSWER

        return self._post(path_of("queues", name), {"step": step}, QUEUE_ANSWER)
