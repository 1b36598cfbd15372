"""Collects what the processes of a job's tasks do now, from all nodes at once. Used by ``stacks`` of the API, and by
``monitor``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from grass.config import ClusterConfig
from grass.errors import GrassError
from grass.model.key_text import attempt_parts
from grass.wire.node_api import STACKS, AskStacks, NodeStacks
from grass.wire.node_record import NodeRecord
from grass.wire.stacks import TaskStacks
from master.node_calls.client import call_node

_AT_ONCE = 8
"""Nodes that are asked at once. ``call_node`` allows a few more, for other calls."""
_OF_ONE_CALL = 64
"""Tasks of one node in one call."""


class Collected(NamedTuple):
    """What nodes answered. ``notes``: why stacks are missing, once for each node."""

    tasks: tuple[TaskStacks, ...]
    notes: tuple[str, ...]


def collect(config: ClusterConfig, nodes: Mapping[str, NodeRecord], wanted: Mapping[str, Sequence[str]]) -> Collected:
    """Return what the attempts do. ``wanted``: node → keys of running attempts there. Never raises for a node that
    does not answer: its tasks say so."""
    parts = [
        (node, list(keys[first : first + _OF_ONE_CALL]))
        for node, keys in wanted.items()
        for first in range(0, len(keys), _OF_ONE_CALL)
    ]
    with ThreadPoolExecutor(_AT_ONCE, "stacks") as pool:
        answers = list(pool.map(lambda part: _ask(config, nodes.get(part[0]), *part), parts))
    notes = {f"node {node}: {answer.note}" for (node, _), answer in zip(parts, answers, strict=True) if answer.note}
    return Collected(tuple(task for answer in answers for task in answer.tasks), tuple(sorted(notes)))


def _ask(config: ClusterConfig, record: NodeRecord | None, node: str, keys: list[str]) -> NodeStacks:
    try:
        if record is None:
            return _nothing(node, keys, f"node {node}: not found; it was removed from the cluster")
        return call_node(config, record, STACKS, AskStacks(tuple(keys)))
    except GrassError as error:
        return _nothing(node, keys, str(error))


def _nothing(node: str, keys: list[str], problem: str) -> NodeStacks:
    parts = (attempt_parts(key) for key in keys)
    return NodeStacks(tuple(TaskStacks(task, int(attempt), node, problem=problem) for _, task, attempt in parts))
