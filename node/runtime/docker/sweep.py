"""``python -m node.runtime.docker.sweep CLUSTER_JSON [--remove]``: end a cluster's containers on this machine.

They get TERM, and KILL after ``GRACE``. Without ``--remove`` they are kept, so that the node-agent can report their
ends. Run when a cluster on one machine is stopped or deleted, while its shepherd ends the processes.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from grass.config import ClusterConfig
from grass.errors import GrassError
from node.runtime.docker import plan
from node.runtime.docker.engine import Engine
from node.runtime.docker.engine_json import Answer

GRACE = 10
AT_ONCE = 8


def sweep(config: ClusterConfig, *, remove: bool) -> None:
    """End the containers. Raises UnreachableError: the engine does not answer, so containers may remain."""
    engine = Engine()
    try:
        found = engine.containers([f"{plan.CLUSTER}={config.name}", f"{plan.NODE}={config.node.name}"])
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(lambda container: _end(engine, container, remove=remove), found))
    finally:
        engine.close()


def _end(engine: Engine, container: Answer, *, remove: bool) -> None:
    if container["State"]["Running"]:
        engine.stop(container["Id"], GRACE)
    if remove:
        engine.remove(container["Id"])


def main(path: str, *options: str) -> int:
    try:
        sweep(ClusterConfig.load(path), remove="--remove" in options)
    except GrassError as error:
        print(error, file=sys.stderr)  # noqa: T201 (the caller shows it)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
