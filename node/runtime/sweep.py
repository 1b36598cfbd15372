"""``python -m node.runtime.sweep CLUSTER_JSON [--remove]``: end what engines run for a cluster on this machine.

Run when a cluster on one machine is stopped or deleted, while its shepherd ends the processes.
"""

from __future__ import annotations

import sys

from grass.errors import GrassError
from grass.node_config import NodeHome
from node.runtime.registry import kind


def main(path: str, *options: str) -> int:
    config, code = NodeHome.load(path), 0
    for name in config.node.runtimes:
        try:
            kind(name).sweep(config, remove="--remove" in options)
        except GrassError as error:
            print(error, file=sys.stderr)  # noqa: T201 (the caller shows it)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
