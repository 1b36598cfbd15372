"""``python -m node.agent CLUSTER_JSON``: the node-agent of one node, until SIGTERM. Tasks outlive it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from grass.config import ClusterConfig, Secrets
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.store.node_store import NodeStore
from grass.systemd import Notifier
from node.agent import gpu
from node.agent.environment import inherited
from node.agent.loop import NodeAgent
from node.agent.runtimes import open_runtime
from node.agent.shipper import Shipper

log = logging.getLogger("node.agent")


def main(path: str) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s node-agent: %(message)s")
    threading.excepthook = _end_at_once
    sys.setswitchinterval(0.0005)  # reports must not wait for the loop's turn
    config = ClusterConfig.load(path)
    backend = open_backend(config, Secrets.load(config.home), "node")
    notifier = Notifier()
    agent = NodeAgent(
        config,
        NodeStore(backend, Keys(config.key_prefix), config.node.name),
        open_runtime(config),
        lambda on_complete: Shipper(config, on_complete=on_complete),
        inherited(os.environ),
        gpu.devices(),
        notifier.beat,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    notifier.ready()
    agent.run()
    return 0


def _end_at_once(failure: threading.ExceptHookArgs) -> None:
    """A thread that failed leaves an agent that is deaf or mute; the next one goes on where this one was."""
    log.critical("a thread failed; starting again", exc_info=failure.exc_value)
    logging.shutdown()
    os._exit(70)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
