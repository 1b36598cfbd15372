"""Calls nodes, a witness among them, with the node's token and the master's certificate. The standby has both, too.

Used by ``candidate``, ``new_address`` and ``standby_watch``.
"""

from __future__ import annotations

from grass.api.node_link import FAILURES, NodeLink, refusal
from grass.api.node_token import node_token
from grass.config import ClusterConfig, Secrets
from grass.errors import NodeUnreachableError
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.wire.codec import encode
from grass.wire.node_api import Answered, Asked, NodeCall
from grass.wire.node_record import NODE_RECORD, NodeRecord
from grass.wire.witness import WitnessAnswer

SECONDS = 2.0


def ask_witness(
    config: ClusterConfig, backend: RedisBackend, name: str, call: NodeCall[Asked, WitnessAnswer], content: Asked
) -> WitnessAnswer:
    """``name``: of the node. ``backend``: the store that knows it. Raises GrassError: no answer, or a refusal."""
    found = backend.hget(Keys(config.key_prefix).nodes, name)
    if found is None:
        raise NodeUnreachableError(f"witness {name}: no such node; add it, or name another in `standby.witness`")
    return ask_node(config, NODE_RECORD.decode(found), call, content)


def ask_node(config: ClusterConfig, record: NodeRecord, call: NodeCall[Asked, Answered], content: Asked) -> Answered:
    """Raises GrassError: no answer, or a refusal."""
    name = record.name
    token = node_token(Secrets.load(config.home).node_token, name, record.digest)
    link = NodeLink(config, name, record.address, record.api_port, token, SECONDS)
    try:
        status, body = link.exchange(call.method, call.path, encode(content).encode(), SECONDS)
    except FAILURES as error:
        raise NodeUnreachableError(f"node {name}: does not answer at {record.address} ({error})") from error
    if status >= 300:
        raise refusal(body) or NodeUnreachableError(f"node {name}: answers with status {status}")
    return call.answered.decode(body)
