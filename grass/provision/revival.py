"""Revival of a supervisord that died or hangs: ``python -m grass.provision.revival CLUSTER_JSON``.

Requested by daemons (``grass.supervision.supervisor_watch``), in a process of its own, because it replaces daemons,
including the one that asked. Tasks continue to run: the shepherd is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grass.node_config import load_master
from grass.provision import local
from grass.provision.filelock import cluster_lock
from grass.supervision import processes
from grass.supervision.supervisor import Supervisor

_LOCK_PATIENCE = 600.0


def main(path: str) -> None:
    """Restart the cluster, unless it was stopped on purpose or is already started again."""
    try:
        config = load_master(path)
    except FileNotFoundError:
        return
    with cluster_lock(Path(config.home).parents[1], config.name, _LOCK_PATIENCE):
        if config.path.exists() and processes.of_cluster(config) and not Supervisor(config).answers():
            local.start_again(config, lambda line: print(line, flush=True))  # noqa: T201 (into revival.log)


if __name__ == "__main__":
    main(sys.argv[1])
