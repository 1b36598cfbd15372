"""Look at an API server from the master: ``python -m grass.provision.on_premises.namespace_host``, as user `grass`.

    look                with ``Credentials`` as JSON on stdin
    reach CLUSTER_JSON  with those of a node that is a namespace

Run by ``namespace_nodes``. Changes nothing, and sends nothing but a question for the server's version.
"""

from __future__ import annotations

import sys
from contextlib import closing

from grass.errors import GrassError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.credentials import CREDENTIALS, Credential
from grass.kubernetes.trial import check_version, server_of
from grass.node_config import NodeHome


def main(action: str, *paths: str) -> int:
    try:
        with closing(_given() if action == "look" else _of_node(*paths)) as server:
            check_version(server)
    except GrassError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _given() -> ApiServer:
    credentials = CREDENTIALS.decode(sys.stdin.read())
    return ApiServer(Credential(lambda: credentials))


def _of_node(path: str) -> ApiServer:
    return server_of(NodeHome.load(path).namespace)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
