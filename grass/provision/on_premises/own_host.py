"""This machine, without root: steps that normally run as root run as the user.

Used by ``grass.cli.join`` and ``grass.cli.leave``.
"""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

from grass.hosts import LocalHost
from grass.provision.on_premises import node_paths
from grass.provision.on_premises.node_paths import NodePaths


class OwnHost(LocalHost):
    def become_root(self) -> tuple[str, ...]:
        return ()


def own_paths(cluster: str) -> NodePaths:
    user = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(os.getegid()).gr_name
    return node_paths.of_user(cluster, user.pw_name, group, user.pw_dir, f"/run/user/{os.geteuid()}")


def own_clusters() -> list[str]:
    """Clusters that this user's rootless node belongs to."""
    folder = Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".grass/nodes"
    return sorted(path.parent.name for path in folder.glob("*/record.json"))
