"""Figures of what nodes and tasks use: name, unit, and the chart on which each is drawn. Pure.

A name is that of a field of a sample (``grass.wire.usage``), of a curve, and of a metric of the page ``/metrics``.
Used by ``sparkline``, ``grass.dashboard.curves``, ``master.monitor.figures`` and ``master.monitor.exposition``.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Unit(Enum):
    """The unit of a figure. The page of the dashboard formats by these words (``charts.js``)."""

    PERCENT = "percent"
    BYTES = "bytes"
    RATE = "rate"
    """Bytes per second."""
    CORES = "cores"
    WATTS = "watts"
    CELSIUS = "celsius"
    NUMBER = "number"


class Figure(NamedTuple):
    """One figure of a node, of one of its devices, or of a task."""

    name: str
    unit: Unit
    about: str
    """What the page ``/metrics`` says of it."""
    chart: str = ""
    """Title of the chart of its curve. Empty: it has no history, only a newest value."""
    label: str = ""
    """Its name on this chart; ``{}``: which device."""
    devices: str = ""
    """How its curves begin if each of several devices has one: ``gpu0.power``, ``rdma.mlx5_0/1.sent``."""
    shown_at_zero: bool = False
    """Whether a curve says something that is zero all the time."""

    def curve(self, device: str) -> str:
        """Return the name of its curve. ``device``: empty, if it is none of a device."""
        return f"{self.devices}{device}.{self.name}" if self.devices else self.name

    def device(self, curve: str) -> str | None:
        """Return the device whose curve this is; None: it is the curve of another figure."""
        if not self.devices:
            return "" if curve == self.name else None
        if curve.startswith(self.devices) and curve.endswith(f".{self.name}"):
            return curve[len(self.devices) : -len(self.name) - 1]
        return None


GPU, PORT = "gpu", "rdma."
"""Devices of a node: a GPU by its number, a port of RDMA by its name."""
_LINKS, _OF_PORT = "Bytes per second over all NVLinks", "Bytes per second of an RDMA port"

OF_NODE = (
    Figure("cpu", Unit.PERCENT, "Percent of all cores in use", "CPU", "cpu"),
    Figure("memory", Unit.BYTES, "Bytes of memory in use", "Memory", "memory"),
    Figure("memory_total", Unit.BYTES, "Bytes of memory"),
    Figure("utilisation", Unit.PERCENT, "Percent of the time in which a kernel ran", "GPU", "gpu {}", GPU),
    Figure("memory", Unit.BYTES, "Bytes of device memory in use", "GPU memory", "gpu {}", GPU),
    Figure("memory_total", Unit.BYTES, "Bytes of device memory", devices=GPU),
    Figure("network_sent", Unit.RATE, "Bytes per second sent", "Network", "sent"),
    Figure("network_received", Unit.RATE, "Bytes per second received", "Network", "received"),
    Figure("sent", Unit.RATE, _OF_PORT, "RDMA", "{} sent", PORT),
    Figure("received", Unit.RATE, _OF_PORT, "RDMA", "{} received", PORT),
    Figure("nvlink_sent", Unit.RATE, _LINKS, "NVLink", "gpu {} sent", GPU),
    Figure("nvlink_received", Unit.RATE, _LINKS, "NVLink", "gpu {} received", GPU),
    Figure("disk_read", Unit.RATE, "Bytes per second read from disks", "Disks", "read"),
    Figure("disk_written", Unit.RATE, "Bytes per second written to disks", "Disks", "written"),
    Figure("disk_used", Unit.BYTES, "Bytes in use on the disk of the node's folder", "Disk in use", "used"),
    Figure("disk_total", Unit.BYTES, "Bytes of this disk"),
    Figure("load", Unit.NUMBER, "Load average over one minute", "Load", "load"),
    Figure("power", Unit.WATTS, "Watts of the CPU packages", "Power", "cpu"),
    Figure("power", Unit.WATTS, "Watts", "Power", "gpu {}", GPU),
    Figure("temperature", Unit.CELSIUS, "Degrees Celsius", "Temperature", "gpu {}", GPU),
    Figure("clock", Unit.NUMBER, "MHz of the multiprocessors", devices=GPU),
    Figure("ecc", Unit.NUMBER, "Uncorrected memory errors since the last reset", devices=GPU),
)
OF_TASK = (
    Figure("cpu", Unit.CORES, "Cores in use", "CPU", "cores", shown_at_zero=True),
    Figure("memory", Unit.BYTES, "Bytes of memory in use", "Memory", "memory", shown_at_zero=True),
    Figure("gpu", Unit.PERCENT, "Percent of its devices", "GPU", "gpu"),
    Figure("gpu_memory", Unit.BYTES, "Bytes of device memory in use", "GPU memory", "memory"),
    Figure("read", Unit.RATE, "Bytes per second read from disks", "Files", "read"),
    Figure("written", Unit.RATE, "Bytes per second written to disks", "Files", "written"),
    Figure("power", Unit.WATTS, "Watts of its share of GPUs and CPU packages", "Power", "power"),
)
OF_JOB = tuple(
    each._replace(unit=Unit.NUMBER, chart="GPUs in use", label="gpus") if each.name == "gpu" else each
    for each in OF_TASK
)
"""Sums over all tasks. Percents of what each task has do not add up, so devices are counted."""
JOB_DEVICE = 100
"""What one device in use adds to the curve ``gpu`` of a job, which the API gives in percent of one device."""
