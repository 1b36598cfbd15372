"""The probe that a node has passed, as it is kept on its disk: ``node/probe.json``."""

from __future__ import annotations

import json
from typing import Any

from grass.atomic_file import replace_file
from grass.config import ClusterConfig
from node.mounts import mount_point


def passed(config: ClusterConfig) -> dict[str, Any] | None:
    """What ``remember`` was given; None: none was passed yet."""
    try:
        found: dict[str, Any] = json.loads((config.node_dir / "probe.json").read_text())
    except (OSError, ValueError):
        return None
    return found


def mounted(config: ClusterConfig) -> str | None:
    """The mount point that the share had then."""
    found = passed(config)
    return None if found is None else found.get("mount", "/")


def share_is_mounted(config: ClusterConfig) -> bool:
    """As it was then, if that is known."""
    return mounted(config) in (None, mount_point(config.data_dir))


def remember(config: ClusterConfig, result: dict[str, Any]) -> None:
    config.node_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(config.node_dir / "probe.json", json.dumps({**result, "mount": mount_point(config.data_dir)}))
