"""The machine's resources and their use, for hello and heartbeats. Used by ``this_machine`` and ``machine_usage``."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from grass import __version__, clock
from grass.config import ClusterConfig
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources
from grass.usable_resources import machine_memory, usable_cpu
from grass.wire.gpu import GpuDevice, GpuSample
from grass.wire.heartbeat import Network, NodeUsage
from grass.wire.hello import Hello, Probe
from grass.wire.version import PROTOCOL
from node.agent import labels
from node.mounts import mount_of

_WITHIN = ("lo", "veth", "docker", "br-", "virbr", "cni", "flannel", "tap")


class Usage:
    """Samples the use of the machine. ``folder``: a folder on the disk that counts as the node's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._network = network_bytes()
        self._at = clock.steady()
        psutil.cpu_percent(None, percpu=True)

    def sample(self, gpus: tuple[GpuSample, ...] = ()) -> NodeUsage:
        """Return the present use. CPU use and traffic are averages since the last call."""
        disk = os.statvfs(self._folder)
        memory = psutil.virtual_memory()
        cores = psutil.cpu_percent(None, percpu=True)
        return NodeUsage(
            cpu=round(sum(cores) / len(cores), 1),
            cores=tuple(cores),
            memory=memory.used,
            memory_total=memory.total,
            load=os.getloadavg()[0],
            disk_free=disk.f_bavail * disk.f_frsize,
            disk_total=disk.f_blocks * disk.f_frsize,
            network=self._rates(),
            gpus=gpus,
        )

    def _rates(self) -> Network:
        (sent, received), (before_sent, before_received) = network_bytes(), self._network
        now = clock.steady()
        seconds = max(0.001, now - self._at)
        self._network, self._at = (sent, received), now
        return Network(
            sent=max(0, round((sent - before_sent) / seconds)),
            received=max(0, round((received - before_received) / seconds)),
        )


def network_bytes() -> tuple[int, int]:
    """Return the bytes sent and received by the machine, without interfaces inside it (loopback, containers)."""
    counts = [each for name, each in psutil.net_io_counters(pernic=True).items() if not name.startswith(_WITHIN)]
    return sum(each.bytes_sent for each in counts), sum(each.bytes_recv for each in counts)


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
