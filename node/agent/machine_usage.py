"""What the machine uses: cores, memory, disks, network, RDMA ports, and the energy of its CPU packages.

Called by the usage sampler, in its thread. Rates are averages since the last call. A source that the machine does not
have, or that this user may not read, is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil

from grass.system import clock
from grass.wire.usage import GpuUsage, NodeSample, RdmaUsage
from node.runtime import proc

_SYS = Path("/sys")
_WITHIN = ("lo", "veth", "docker", "br-", "virbr", "cni", "flannel", "tap")
_RDMA_WORD = 4
"""Bytes of the words in which RDMA ports count."""


class Counters(msgspec.Struct, frozen=True):
    """Everything that only grows. ``at``: steady seconds. Others than ``busy`` and ``energy`` are bytes."""

    at: float
    busy: tuple[float, ...]
    """Seconds that each core was busy."""
    total: tuple[float, ...]
    """Seconds of each core."""
    network: tuple[int, int]
    disks: tuple[int, int] | None
    rdma: dict[str, tuple[int, int]]
    energy: dict[str, float]
    """CPU package → joules."""


class Interval(msgspec.Struct, frozen=True):
    """What the machine did between two calls. Shares of tasks are computed from it."""

    seconds: float
    busy: float
    """Core seconds."""
    energy: float | None
    """Joules of all CPU packages. None: they are not reported, or not to this user."""


class MachineUsage:
    """Samples what the machine uses.

    ``folder``: a folder on the disk that counts as the node's. ``sys``: the root of sysfs.
    """

    def __init__(self, folder: Path, sys: Path = _SYS, steady: Callable[[], float] = clock.steady) -> None:
        self._folder = folder
        self._sys = sys
        self._steady = steady
        self._ranges = {package.name: _number(package / "max_energy_range_uj") for package in _packages(sys)}
        self._before = self._counters()

    def sample(self, gpus: tuple[GpuUsage, ...] = ()) -> tuple[NodeSample, Interval]:
        """Measure now. Rates are those since the previous call."""
        before, now = self._before, self._counters()
        self._before = now
        seconds = max(0.001, now.at - before.at)
        energy = self._energy(before, now)
        cores = [
            _fraction(b - a, t - s) for a, b, s, t in zip(before.busy, now.busy, before.total, now.total, strict=False)
        ]
        disk, memory = os.statvfs(self._folder), psutil.virtual_memory()
        read, written = _rates(before.disks, now.disks, seconds) if now.disks else (None, None)
        sent, received = _rates(before.network, now.network, seconds)
        sample = NodeSample(
            cpu=round(sum(cores) / max(1, len(cores)), 1),
            cores=tuple(cores),
            load=round(os.getloadavg()[0], 2),
            memory=memory.used,
            memory_total=memory.total,
            disk_used=(disk.f_blocks - disk.f_bfree) * disk.f_frsize,
            disk_total=disk.f_blocks * disk.f_frsize,
            disk_read=read,
            disk_written=written,
            network_sent=sent,
            network_received=received,
            power=None if energy is None else round(energy / seconds, 1),
            gpus=gpus,
            rdma=tuple(
                RdmaUsage(port, *_rates(before.rdma.get(port), counts, seconds)) for port, counts in now.rdma.items()
            ),
        )
        return sample, Interval(seconds, max(0.0, sum(now.busy) - sum(before.busy)), energy)

    def _counters(self) -> Counters:
        cores = psutil.cpu_times(percpu=True)
        disks = psutil.disk_io_counters()
        # iowait is idle time; guest time is a part of user time
        busy = tuple(each.user + each.nice + each.system + each.irq + each.softirq + each.steal for each in cores)
        return Counters(
            at=self._steady(),
            busy=busy,
            total=tuple(b + each.idle + each.iowait for b, each in zip(busy, cores, strict=True)),
            network=_network(),
            disks=(disks.read_bytes, disks.write_bytes) if disks else None,
            rdma=_rdma(self._sys),
            energy=_energy(self._sys),
        )

    def _energy(self, before: Counters, now: Counters) -> float | None:
        """Return the joules of all packages. A counter that began again from 0 has passed its range."""
        if not now.energy or now.energy.keys() != before.energy.keys():
            return None
        used = 0.0
        for package, joules in now.energy.items():
            used += joules - before.energy[package]
            if joules < before.energy[package]:
                longest = self._ranges.get(package)
                if longest is None:
                    return None
                used += longest / 1e6
        return max(0.0, used)


def _fraction(busy: float, total: float) -> float:
    return round(min(100.0, max(0.0, 100 * busy / total)), 1) if total > 0 else 0.0


def _rates(before: tuple[int, int] | None, now: tuple[int, int], seconds: float) -> tuple[int, int]:
    first, second = before or now
    return max(0, round((now[0] - first) / seconds)), max(0, round((now[1] - second) / seconds))


def _network() -> tuple[int, int]:
    """Return the bytes sent and received by the machine, without interfaces inside it (loopback, containers)."""
    counts = [each for name, each in psutil.net_io_counters(pernic=True).items() if not name.startswith(_WITHIN)]
    return sum(each.bytes_sent for each in counts), sum(each.bytes_recv for each in counts)


def _rdma(sys: Path) -> dict[str, tuple[int, int]]:
    """Return ``<device>/<port>`` → bytes sent and received."""
    found = {}
    for counters in sorted(sys.glob("class/infiniband/*/ports/*/counters")):
        sent, received = _number(counters / "port_xmit_data"), _number(counters / "port_rcv_data")
        if sent is not None and received is not None:
            port = f"{counters.parts[-4]}/{counters.parts[-2]}"
            found[port] = (sent * _RDMA_WORD, received * _RDMA_WORD)
    return found


def _packages(sys: Path) -> list[Path]:
    """Return the folders of CPU packages: ``package-0``, or ``package-0-die-0``.

    The others are parts of a package, or the whole platform (``psys``), which has the packages as parts.
    """
    zones = sorted(sys.glob("class/powercap/intel-rapl:*"))
    return [zone for zone in zones if proc.read(f"{zone}/name").startswith(b"package-")]


def _energy(sys: Path) -> dict[str, float]:
    counts = {path.name: _number(path / "energy_uj") for path in _packages(sys)}
    return {} if None in counts.values() else {name: (count or 0) / 1e6 for name, count in counts.items()}


def _number(path: Path) -> int | None:
    text = proc.read(str(path)).strip()
    return int(text) if text.isdigit() else None
