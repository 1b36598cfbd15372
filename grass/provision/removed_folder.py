"""``python -m grass.provision.removed_folder CLUSTER_JSON``: ends a cluster whose folder was removed while it ran.

Requested by the master-agent (``grass.supervision.folder_watch``), in a process of its own, because it also ends the
caller. The module must touch nothing while a cluster exists at that path.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grass.config import ClusterConfig
from grass.model.mode import LOCAL
from grass.provision import runtime_folder, stopping
from grass.provision.filelock import cluster_lock
from grass.supervision.folder_watch import is_gone


def removed_cluster(path: Path) -> ClusterConfig:
    """Rebuild a configuration from its path alone: enough to find and end the processes."""
    return ClusterConfig(path.parent.name, LOCAL, str(path.parent), str(runtime_folder.choose(path.parent)))


def main(path: Path) -> None:
    base = path.parents[2]
    if base.is_dir():
        with cluster_lock(base, path.parent.name):
            _end(path)
    else:  # GRASS_HOME is gone, too: a lock would create it again
        _end(path)


def _end(path: Path) -> None:
    if is_gone(path):
        config = removed_cluster(path)
        stopping.stop(config, forever=True)
        runtime_folder.remove(Path(config.runtime_dir))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
