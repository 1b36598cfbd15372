"""``python -m node.operator CLUSTER_JSON``: serve the custom resources of a namespace as jobs, until SIGTERM.

``CLUSTER_JSON``: of the node that is the namespace. Jobs go on without the operator; resources are not dealt with.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path

from grass.api.client import Client
from grass.api.daemon_entry import FORMAT
from grass.kubernetes.trial import server_of
from grass.node_config import NodeHome
from grass.system import process_memory
from grass.system.systemd import Notifier
from node.operator.loop import Operator, Place


def main(path: str) -> int:
    config = NodeHome.load(path)
    settings = config.namespace
    assert settings.serve is not None, "the node is a namespace that is served"
    logging.basicConfig(level=logging.INFO, format=FORMAT)
    stop, notifier = threading.Event(), Notifier()
    place = Place(settings.cluster_id, config.node.name, settings.namespace, settings.serve)
    client = Client(config.name, home=grass_home(config))
    client.on_this_machine = False  # what is submitted is of Kubernetes: not of this process's folder and variables
    operator = Operator(client, server_of(settings), place, str(Path.home()), notifier.beat)

    def end(*_: object) -> None:
        stop.set()
        operator.wake()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    process_memory.keep_imported()
    notifier.ready()
    operator.run(stop)
    return 0


def grass_home(config: NodeHome) -> Path:
    """Return GRASS_HOME of the cluster: the node's folder is ``clusters/CLUSTER/nodes/NODE`` in it."""
    return Path(config.home).parents[3]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
