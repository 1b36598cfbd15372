"""Decides, from the store, which node may send the output of an attempt. Used for connections of nodes, over TCP.

A node may send what its own attempts print, of jobs that exist: the newest attempt of a task, or an earlier one that
the store still has.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from enum import Enum

from grass.errors import UndecodableError
from grass.model.lifecycle import NodeState
from grass.store.backend import Backend
from grass.store.keys import Keys
from grass.system.clock import steady
from grass.wire.attempt_record import ATTEMPT_RECORD, field_of
from grass.wire.codec import encode
from grass.wire.keys import TaskKey
from grass.wire.log_block import PROBE_JOB
from grass.wire.node_record import NODE_RECORD
from grass.wire.task_record import TASK_RECORD, TaskRecord
from grass.wire.tickets import SuspectNode
from master.collector.storage import Target

REMEMBERED = 65_536
"""Answers that are remembered."""
REFUSED_SECONDS = 1.0
"""Seconds for which a refusal is remembered, so that a flood costs no reads of the store."""
MOST_FOREIGN = 100
"""Records of other nodes' attempts that a node may send before a ticket reports it. A sound node sends none."""


class Verdict(Enum):
    """Whether an attempt belongs to a node."""

    OWN = "own"
    UNKNOWN = "unknown"
    """There is no such job, task or attempt any more. Happens to sound nodes, too."""
    FOREIGN = "foreign"
    """The attempt is another node's, or never was."""


class Owners:
    """One instance per collector. Methods raise UnreachableError while the store is away."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys
        self._known: OrderedDict[tuple[str, Target, int], tuple[Verdict, float]] = OrderedDict()
        self._foreign: Counter[str] = Counter()

    def is_member(self, node: str) -> bool:
        """Return whether the node belongs to the cluster."""
        return self.joined(node) is not None

    def joined(self, node: str) -> str | None:
        """Return ``digest`` of the node's record; None: it does not belong to the cluster."""
        text = self._backend.hget(self._keys.nodes, node)
        if text is None:
            return None
        try:
            record = NODE_RECORD.decode(text)
        except UndecodableError:
            return None
        return None if record.state is NodeState.LEFT else record.digest

    def verdict(self, node: str, target: Target, attempt: int) -> Verdict:
        """Decide whether the node may send output of this attempt."""
        key, now = (node, target, attempt), steady()
        known = self._known.get(key)
        if known is None or (known[0] is not Verdict.OWN and now - known[1] > REFUSED_SECONDS):
            known = self._known[key] = (self._ask(node, target, attempt), now)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        if known[0] is Verdict.FOREIGN:
            self._count(node, target)
        return known[0]

    def _ask(self, node: str, target: Target, attempt: int) -> Verdict:
        if target.job_id == PROBE_JOB:
            return Verdict.OWN if (target.task, attempt) == (TaskKey(node.replace(".", "-"), 0), 1) else Verdict.FOREIGN
        text = self._backend.hget(self._keys.tasks(target.job_id), str(target.task))
        if text is None:
            return Verdict.UNKNOWN
        try:
            record = TASK_RECORD.decode(text)
        except UndecodableError:
            return Verdict.UNKNOWN
        return self._judge(node, target, attempt, record)

    def _judge(self, node: str, target: Target, attempt: int, record: TaskRecord) -> Verdict:
        if attempt > record.attempt:
            return Verdict.FOREIGN
        if attempt == record.attempt:
            return _verdict(node, record.node)
        field = field_of(target.task, attempt)
        text = self._backend.hget(self._keys.attempts(target.job_id), field)
        try:
            earlier = None if text is None else ATTEMPT_RECORD.decode(text)
        except UndecodableError:
            return Verdict.UNKNOWN
        if earlier is None or earlier.attempt != attempt:
            return Verdict.UNKNOWN
        return _verdict(node, earlier.node)

    def _count(self, node: str, target: Target) -> None:
        self._foreign[node] += 1
        if self._foreign[node] == MOST_FOREIGN:
            problem = f"it sent log records of attempts of other nodes, such as {target.job_id}/{target.file}"
            ticket = SuspectNode(node, "collector", problem)
            self._backend.apply([("XADD", self._keys.tickets, 0, "body", encode(ticket))], urgent=True)


def _verdict(node: str, owner: str | None) -> Verdict:
    if owner is None:
        return Verdict.UNKNOWN
    return Verdict.OWN if owner == node else Verdict.FOREIGN
