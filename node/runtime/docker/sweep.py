"""Ends the containers of a cluster on this machine. Used by ``kind``.

They get TERM, and KILL after ``GRACE``. Without ``remove`` they are kept, so that the node-agent can report their ends.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from grass.node_config import NodeHome
from node.runtime.docker import kept_memory, plan
from node.runtime.docker.engine import Engine
from node.runtime.docker.engine_json import Answer

GRACE = 10
AT_ONCE = 8


def sweep(config: NodeHome, *, remove: bool) -> None:
    """End the containers. Raises UnreachableError: the engine does not answer, so containers may remain."""
    engine = Engine()
    try:
        found = engine.containers([f"{plan.CLUSTER}={config.name}", f"{plan.NODE}={config.node.name}"])
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(lambda container: _end(engine, container, remove=remove), found))
    finally:
        engine.close()
    if remove:
        kept_memory.sweep(config)


def _end(engine: Engine, container: Answer, *, remove: bool) -> None:
    if container["State"]["Running"]:
        engine.stop(container["Id"], GRACE)
    if remove:
        engine.remove(container["Id"])
