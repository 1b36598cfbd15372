"""The machine's resources and their use, as hello and heartbeats have them. Used by ``this_machine``."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from grass import __version__, clock
from grass.config import ClusterConfig
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources
from grass.usable_resources import machine_memory, usable_cpu
from grass.wire.gpu import GpuDevice, GpuSample
from grass.wire.heartbeat import Network, NodeUsage
from grass.wire.hello import Hello, Probe
from grass.wire.usage import NodeSample
from grass.wire.version import PROTOCOL
from node.agent import labels
from node.mounts import mount_of


def now(sample: NodeSample | None, disk_free: int, gpus: tuple[GpuSample, ...]) -> NodeUsage:
    """Return the use for a heartbeat. ``sample``: the last one of the machine; None: there is none yet."""
    if sample is None:
        return NodeUsage(disk_free=disk_free, gpus=gpus)
    return NodeUsage(
        cpu=sample.cpu,
        cores=sample.cores,
        memory=sample.memory,
        memory_total=sample.memory_total,
        load=sample.load,
        disk_free=disk_free,
        disk_total=sample.disk_total,
        network=Network(sample.network_sent, sample.network_received),
        gpus=gpus,
    )


def hello(
    config: ClusterConfig,
    gpus: Sequence[GpuDevice],
    probe: Probe | None = None,
    conditions: tuple[Reason, ...] = (),
    programs: tuple[str, ...] | None = None,
    versions: Mapping[str, str] = {},
) -> Hello:
    """Return the hello. Tasks may use the resources in the settings, by default those of the machine (of its container,
    if it is one), without the reserve for the system. A node that joined (``probe`` in its settings) offers no more
    than it has.
    """
    node = config.node
    share = mount_of(config.data_dir).kind if config.share is not None else ""
    cpu, memory, gpu = usable_cpu(), machine_memory(), DEVICE * len(gpus)
    resources = Resources(
        cpu=offered(node.cpu, cpu, joined=node.probe),
        memory=offered(node.memory, memory, joined=node.probe),
        gpu=offered(node.gpu, gpu, joined=node.probe),
        disk=free_disk(config.node_dir) if node.disk is None else node.disk,
        custom=tuple(sorted((name, amount) for name, amount in node.custom.items() if amount)),
    )
    return Hello(
        protocol=PROTOCOL,
        version=__version__,
        boot_id=clock.boot_id(),
        address=node.address,
        api_port=node.api_port,
        resources=without(resources, node.reserve),
        gpus=tuple(gpus if node.gpu is None else gpus[: node.gpu // DEVICE]),
        labels={**labels.found(platform.machine(), platform.system(), gpus, share), **node.labels},
        path=tuple(node.path),
        runtimes=tuple(node.runtimes),
        probe=probe,
        conditions=conditions,
        programs=programs,
        versions=dict(versions),
    )


def offered(wanted: int | None, measured: int, *, joined: bool) -> int:
    """Return the amount to offer; ``wanted`` None: all. Only a node that did not join may offer more than is
    measured."""
    if wanted is None:
        return measured
    return min(wanted, measured) if joined else wanted


def without(resources: Resources, reserve: Mapping[str, int]) -> Resources:
    """Return the resources without the reserve, never below zero."""
    return replace(
        resources,
        cpu=max(0, resources.cpu - reserve.get("cpu", 0)),
        memory=max(0, resources.memory - reserve.get("memory", 0)),
        disk=max(0, resources.disk - reserve.get("disk", 0)),
    )


def free_disk(folder: Path) -> int:
    """Return the free bytes of the disk of ``folder``, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
