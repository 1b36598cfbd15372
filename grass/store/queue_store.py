"""Work queues in the store. ``QueueStore`` is for the API server, the only writer of queues; ``QueueLink`` for the
node-agents, which pass on the steps of their tasks. Decides nothing. Used by ``api_store`` and ``node.membership``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from grass.store.backend import Backend, Entry, Op
from grass.store.decoding import decoded_all, sound
from grass.store.keys import CALLS_KEPT, REPEATED_SECONDS, Keys
from grass.wire.codec import Form, encode
from grass.wire.queue_api import (
    ITEM_RECORD,
    QUEUE_OUTCOME,
    QUEUE_RECORD,
    TALLY_RECORD,
    ItemRecord,
    QueueOutcome,
    QueueRecord,
    TallyRecord,
)

TALLY = ""
"""Stands for the tally among the names of items that changed."""
_TOGETHER = 1_000
_SNAPSHOT: Form[dict[str, ItemRecord]] = Form(dict[str, ItemRecord])


class QueueStore:
    """Queues as the API server writes them. A write counts only while ``writer`` is the last that took them over.

    Methods raise UnreachableError."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys

    def take(self, writer: str) -> None:
        """Become the writer. What another server still writes is refused. Read everything again afterwards."""
        self._backend.apply([("SET", self._keys.queue_writer, writer)], urgent=True)

    def commit(self, writer: str, ops: list[Op]) -> bool:
        """Do all in one step. False: another server has taken the queues over, and nothing was changed."""
        return self._backend.apply(ops, [("equals", self._keys.queue_writer, writer)]) == 0

    def records(self) -> dict[str, QueueRecord]:
        return dict(sound(QUEUE_RECORD, self._keys.queues, self._backend.hgetall(self._keys.queues).items()))

    def items(self, name: str) -> tuple[dict[str, ItemRecord], TallyRecord]:
        key = self._keys.queue(name)
        texts = {field: text for piece in self._backend.hash_pieces(key) for field, text in piece.items()}
        tally = texts.pop(TALLY, None)
        return decoded_all(ITEM_RECORD, key, texts), TALLY_RECORD.decode(tally) if tally else TallyRecord()

    def snapshot(self, name: str, snapshot: str, text: str | None) -> dict[str, ItemRecord] | None:
        """Return the items of a snapshot. ``text``: of one that is not written yet."""
        if text is None:
            text = self._backend.hget(self._keys.queue_snapshots(name), snapshot)
        return None if text is None else _SNAPSHOT.decode(text)

    def earlier_answer(self, request: str) -> QueueOutcome | None:
        """Return the answer to a step that was answered a short while ago, perhaps by another server."""
        text = self._backend.get(self._keys.queue_request(request))
        return None if text is None else QUEUE_OUTCOME.decode(text)

    def calls(self, after: str, seconds: float) -> list[Entry]:
        """Return the steps of tasks after an entry. Wait for the first of them."""
        return self._backend.wait({self._keys.queue_calls: after}, seconds, 500).get(self._keys.queue_calls, [])

    # writes, for ``commit``

    def made(self, name: str, record: QueueRecord) -> list[Op]:
        return [("HSET", self._keys.queues, name, encode(record))]

    def removed(self, name: str) -> list[Op]:
        keys = self._keys
        return [("HDEL", keys.queues, name), ("DEL", keys.queue(name)), ("DEL", keys.queue_snapshots(name))]

    def changed(
        self, name: str, items: Mapping[str, ItemRecord], changed: Iterable[str], tally: TallyRecord
    ) -> list[Op]:
        """Return the writes of these items, as they are now; those that are not there are removed."""
        key = self._keys.queue(name)
        pairs, gone = [TALLY, encode(tally)], []
        for each in changed:
            if each == TALLY:
                continue
            if each in items:
                pairs += [each, encode(items[each])]
            else:
                gone.append(each)
        return [("HSET", key, *pairs), *([("HDEL", key, *gone)] if gone else [])]

    def cleared(self, name: str) -> list[Op]:
        return [("DEL", self._keys.queue(name))]

    def kept(self, name: str, snapshot: str, items: Mapping[str, ItemRecord]) -> tuple[list[Op], str]:
        """Return the writes of a snapshot, and its text."""
        text = encode(items)
        return [("HSET", self._keys.queue_snapshots(name), snapshot, text)], text

    def dropped(self, name: str, snapshot: str) -> list[Op]:
        return [("HDEL", self._keys.queue_snapshots(name), snapshot)]

    def answered(self, request: str, outcome: QueueOutcome) -> list[Op]:
        return [("SETEX", self._keys.queue_request(request), REPEATED_SECONDS, encode(outcome))]

    def replied(self, node: str, entry: str, outcome: QueueOutcome) -> list[Op]:
        """Return the writes that answer a step of a task."""
        reply: Op = ("XADD", self._keys.answers(node), CALLS_KEPT, "body", encode(outcome))
        return [reply, *self.refused(entry)]

    def refused(self, entry: str) -> list[Op]:
        return [("XDEL", self._keys.queue_calls, entry)]


class QueueLink:
    """Steps of the tasks of one node, and their answers. Methods raise UnreachableError."""

    def __init__(self, backend: Backend, keys: Keys, node: str) -> None:
        self._backend = backend
        self._calls = keys.queue_calls
        self._answers = keys.answers(node)

    def ask(self, code: str, body: str) -> None:
        self._backend.append([("XADD", self._calls, CALLS_KEPT, "code", code, "body", body)], urgent=False)

    def last(self) -> str:
        entry = self._backend.newest(self._answers)
        return entry[0] if entry else "0-0"

    def answers(self, after: str, seconds: float) -> tuple[str, list[QueueOutcome]]:
        """Return the new position, and the answers after ``after``. Wait for the first of them."""
        found = self._backend.wait({self._answers: after}, seconds, _TOGETHER).get(self._answers, [])
        return found[-1][0] if found else after, [QUEUE_OUTCOME.decode(fields["body"]) for _, fields in found]
