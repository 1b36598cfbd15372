"""``python -m master.api CLUSTER_JSON``: the master-api-server, until TERM."""

from __future__ import annotations

import sys

from grass.config import ClusterConfig
from grass.system.command_line import keep_command_line

keep_command_line()
from master.api.server import Server  # noqa: E402 # it imports gunicorn

if __name__ == "__main__":
    Server(ClusterConfig.load(sys.argv[1])).run()
