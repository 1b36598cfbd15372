"""The node's part in finding its master by itself: ``python -m grass.provision.on_premises.hearing CLUSTER_JSON``, as
the user of its daemons. ``grass.supervision.master_search`` runs it.

It asks the addresses that the node knows. If a proven notice names another address, it writes the notice to a file, for
``follow_on_host``, which proves it again: nothing is believed because this program wrote it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grass.config import ClusterConfig
from grass.errors import GrassError, UnreachableError
from grass.provision.on_premises import node_paths, own_host
from grass.provision.on_premises.following import newest
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.pinned import PINNED, Pinned
from grass.system.atomic_file import replace_file
from grass.wire.notice import Notice


def is_news(notice: Notice, pinned: Pinned) -> bool:
    """Whether a proven notice says that the master is elsewhere than where the node joined."""
    return notice.number > pinned.number and notice.urls != pinned.urls


def hear(cluster: str, pinned: Pinned, heard: Path) -> bool:
    """Ask, and write what is news to ``heard``. Return whether there was any."""
    try:
        notice, text = newest(pinned, cluster)
    except UnreachableError:
        return False
    if not is_news(notice, pinned):
        return False
    replace_file(heard, text)
    return True


def _paths(config: ClusterConfig) -> NodePaths:
    own = own_host.own_paths(config.name)
    return own if str(config.home) == own.home else node_paths.of_root(config.name, None)


def main(path: str) -> None:
    config = ClusterConfig.load(path)
    paths = _paths(config)
    if Path(paths.pinned).exists():  # not if it joined with an earlier Grass
        hear(config.name, PINNED.decode(Path(paths.pinned).read_bytes()), Path(paths.heard))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (GrassError, OSError) as error:
        sys.exit(str(error))
