"""``python -m node.api CLUSTER_JSON``: run the node-api-server until SIGTERM."""

from __future__ import annotations

import sys

from grass.config import ClusterConfig
from node.api.server import Server

if __name__ == "__main__":
    Server(ClusterConfig.load(sys.argv[1])).run()
