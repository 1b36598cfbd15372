"""What explains a cluster on this machine that does not answer, or answers half, and what to do about it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from grass.provision.provisioner import DaemonState

FULL = 16 << 20
"""Bytes free on the disk below which redis and the collector are about to wait for more, if they do not yet."""


def trouble(home: Path, daemons: Sequence[DaemonState], least_free: int = FULL) -> list[str]:
    """``home``: the cluster's folder. ``least_free``: bytes."""
    found = []
    if daemons and all(daemon.state in ("STOPPED", "ORPHANED") for daemon in daemons):
        found.append(
            f"the cluster {home.name} is stopped; `grass create` starts it again with all its state (name its settings "
            "file if it was made from one)"
        )
    free = shutil.disk_usage(home).free
    if free < least_free:
        found.append(
            f"the disk of {home} is full ({free >> 20} MiB free); the cluster goes on by itself once there is space"
        )
    return found
