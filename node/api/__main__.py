"""``python -m node.api CLUSTER_JSON``: run the node-api-server until SIGTERM."""

from __future__ import annotations

import sys

from grass.errors import CertificateError
from grass.node_config import NodeHome
from grass.system.command_line import keep_command_line

keep_command_line()
from node.api.server import Server  # noqa: E402 # it imports gunicorn


def main(path: str) -> None:
    try:
        server = Server(NodeHome.load(path))
    except CertificateError as error:
        sys.exit(str(error))
    server.run()


if __name__ == "__main__":
    main(sys.argv[1])
