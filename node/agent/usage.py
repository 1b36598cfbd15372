"""What the machine has and how busy it is, for `hello` and heartbeats."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from grass import __version__, clock
from grass.config import ClusterConfig
from grass.model.resources import DEVICE, Resources
from node.agent import labels


def usage(folder: Path) -> dict[str, Any]:
    """``cpu`` in percent of all cores since the last call, ``memory`` used and ``disk_free`` in bytes."""
    disk = os.statvfs(folder)
    return {
        "cpu": psutil.cpu_percent(None),
        "memory": psutil.virtual_memory().used,
        "load": os.getloadavg()[0],
        "disk_free": disk.f_bavail * disk.f_frsize,
    }


def hello(config: ClusterConfig, gpus: list[dict[str, Any]], attempts: list[str]) -> dict[str, Any]:
    """The body of the report of that name: what tasks may use is what the settings say, or else what the machine has,
    without what is kept back for the system."""
    node = config.node
    resources = Resources(
        cpu=1000 * (os.cpu_count() or 1) if node.cpu is None else node.cpu,
        memory=psutil.virtual_memory().total if node.memory is None else node.memory,
        gpu=DEVICE * len(gpus) if node.gpu is None else node.gpu,
        disk=free_disk(config.node_dir) if node.disk is None else node.disk,
        custom=tuple(sorted((name, amount) for name, amount in node.custom.items() if amount)),
    )
    return {
        "boot_id": clock.boot_id(),
        "version": __version__,
        "address": node.address,
        "api_port": node.api_port,
        "resources": without(resources, node.reserve).to_wire(),
        "gpus": gpus if node.gpu is None else gpus[: node.gpu // DEVICE],
        "labels": {**labels.found(platform.machine(), platform.system(), gpus), **node.labels},
        "path": list(node.path),
        "runtimes": list(node.runtimes),
        "attempts": attempts,
    }


def without(resources: Resources, reserve: Mapping[str, int]) -> Resources:
    """What is left for tasks; never less than nothing."""
    return replace(
        resources,
        cpu=max(0, resources.cpu - reserve.get("cpu", 0)),
        memory=max(0, resources.memory - reserve.get("memory", 0)),
        disk=max(0, resources.disk - reserve.get("disk", 0)),
    )


def free_disk(folder: Path) -> int:
    """Bytes that are free where ``folder`` lies, or will lie."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
