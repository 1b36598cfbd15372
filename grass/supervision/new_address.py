"""Tells the nodes where the master is, after a standby took over by itself. Run by the master-agent, in a thread.

Nodes that are away are told when they answer. After a failover by hand, nodes are told over SSH instead. Used by
``grass.provision.on_premises.takeover_on_host`` and ``master.agent.__main__``.
"""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from pathlib import Path

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.model.event_kind import EventKind
from grass.model.lifecycle import NodeState
from grass.store.connect import open_backend
from grass.store.event_log import logged
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.supervision.predecessor import term_of
from grass.supervision.witness_call import ask_node
from grass.system import clock
from grass.wire.event_record import EventRecord
from grass.wire.node_api import NEW_MASTER, NewMaster
from grass.wire.node_record import NODE_RECORD, NodeRecord

UNTOLD = "untold"
"""File in the cluster's folder: this master took over, and a node may not know it."""
_AGAIN = 1.0

log = logging.getLogger(__name__)


def start_telling(config: ClusterConfig) -> None:
    """Return at once. Most masters have nothing to tell."""
    if (Path(config.home) / UNTOLD).exists():
        threading.Thread(target=_run, args=(config,), name="new-address", daemon=True).start()


def _run(config: ClusterConfig) -> None:
    keys, told, said = Keys(config.key_prefix), set[str](), False
    failed: dict[str, str] = {}
    with closing(open_backend(config, Secrets.load(config.home), "admin")) as backend:
        while True:
            try:
                if not said:
                    text = f"standby {config.address}: took over from the master, with the witness's vote"
                    backend.apply([logged(keys, EventRecord(clock.wall(), EventKind.STANDBY.value, text))])
                    said = True
                untold = [each for each in _nodes(backend, keys) if each.name not in told]
                told |= {each.name for each in untold if _tell(config, backend, keys, each, failed)}
                if len(told) >= len(_nodes(backend, keys)):
                    (Path(config.home) / UNTOLD).unlink(missing_ok=True)
                    return
            except GrassError as error:
                log.debug("%s", error)
            clock.sleep(_AGAIN)


def _nodes(backend: RedisBackend, keys: Keys) -> list[NodeRecord]:
    found = [NODE_RECORD.decode(text) for text in backend.hgetall(keys.nodes).values()]
    return [each for each in found if each.state is not NodeState.LEFT and each.api_port]


def _tell(config: ClusterConfig, backend: RedisBackend, keys: Keys, node: NodeRecord, failed: dict[str, str]) -> bool:
    redis = config.redis
    asked = NewMaster(
        term_of(backend, keys.restored),
        redis.host or "",
        redis.port or 0,
        config.collector or "",
        config.task_redis_server or "",
        config.api_urls[0],
    )
    try:
        ask_node(config, node, NEW_MASTER, asked)
    except GrassError as error:
        if failed.get(node.name) != str(error):
            failed[node.name] = str(error)
            log.info("node %s does not know yet that this machine is the master; trying again: %s", node.name, error)
        return False
    log.info("node %s knows that this machine is the master", node.name)
    return True
