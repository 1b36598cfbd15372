"""What nodes measure: samples on the stream ``node:<n>:usage``, and what a task used in all.

Written by node-agents every 2 s. Read by the monitor, which keeps histories (``usage_history``), and by the API, which
shows the newest sample. The master-agent reads only the totals, in the event ``ended``.

A figure is None, or absent, if its source does not report it. Rates are averages since the previous sample.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class GpuUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU."""

    id: int
    """NVML's index."""
    utilisation: float | None = None
    """Percent of the time in which a kernel ran."""
    memory: int | None = None
    """Bytes in use."""
    memory_total: int | None = None
    """Bytes."""
    power: float | None = None
    """Watts."""
    temperature: int | None = None
    """Degrees Celsius."""
    clock: int | None = None
    """Clock of the multiprocessors, in MHz."""
    memory_clock: int | None = None
    """MHz."""
    ecc_corrected: int | None = None
    """Corrected memory errors since the last reset."""
    ecc: int | None = None
    """Uncorrected memory errors since the last reset."""
    nvlink_sent: int | None = None
    """Bytes per second over all links."""
    nvlink_received: int | None = None
    error: str | None = None
    """Why the device does not answer."""


class RdmaUsage(msgspec.Struct, frozen=True):
    """One port of an RDMA device."""

    port: str
    """``<device>/<port>``, such as ``mlx5_0/1``."""
    sent: int
    """Bytes per second."""
    received: int


class NodeSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One machine, with all that runs on it."""

    cpu: float
    """Percent of all cores."""
    cores: tuple[float, ...] = ()
    """Percent of each core."""
    load: float = 0.0
    """Load average over one minute."""
    memory: int
    """Bytes in use."""
    memory_total: int
    disk_used: int
    """Bytes in use on the disk of the node's folder."""
    disk_total: int
    disk_read: int | None = None
    """Bytes per second, of all disks."""
    disk_written: int | None = None
    network_sent: int
    """Bytes per second, without traffic inside the machine."""
    network_received: int
    power: float | None = None
    """Watts of the CPU packages (RAPL)."""
    gpus: tuple[GpuUsage, ...] = ()
    rdma: tuple[RdmaUsage, ...] = ()


class TaskTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt, a task (all its attempts) or a job (all its tasks) used in all."""

    cpu: float = 0.0
    """Core seconds."""
    memory: int = 0
    """Bytes at the peak. Of a task: of the attempt with the highest peak; of a job: of its task with the highest."""
    gpu: float = 0.0
    """Device seconds in which a kernel ran, by the share of each device that is allocated to it."""
    gpu_memory: int = 0
    """Bytes at the peak, as ``memory``."""
    read: int = 0
    """Bytes read from disks."""
    written: int = 0
    """Bytes written to disks."""
    energy: float = 0.0
    """Joules of GPUs and CPU packages."""
    partial: bool = False
    """Whether the energy lacks a source: CPU packages or GPUs that do not report their power."""
    unmeasured: int = 0
    """Attempts without known usage, for example those of a lost node."""

    def plus(self, other: TaskTotals) -> TaskTotals:
        """Return the totals of both together: sums, and the higher peaks."""
        return TaskTotals(
            cpu=_sum(self.cpu, other.cpu, 3),
            memory=max(self.memory, other.memory),
            gpu=_sum(self.gpu, other.gpu, 3),
            gpu_memory=max(self.gpu_memory, other.gpu_memory),
            read=self.read + other.read,
            written=self.written + other.written,
            energy=_sum(self.energy, other.energy, 1),
            partial=self.partial or other.partial,
            unmeasured=self.unmeasured + other.unmeasured,
        )


def _sum(one: float, other: float, digits: int) -> float:
    """Return the sum of two figures of nodes. It stays finite, because JSON knows no infinity."""
    return round(max(-_MOST_TOTAL, min(_MOST_TOTAL, one + other)), digits)


_MOST_TOTAL = 1e18


class TaskSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One running attempt: all its processes, or its container."""

    key: str
    """Attempt key."""
    cpu: float = 0.0
    """Cores in use."""
    memory: int = 0
    """Bytes in use now."""
    gpu: float | None = None
    """Percent of the devices that are allocated to it."""
    gpus: float | None = None
    """Devices in use: of each device its utilisation, by the share that is allocated to it."""
    gpu_memory: int | None = None
    """Bytes that its processes use on them."""
    read: int = 0
    """Bytes per second."""
    written: int = 0
    """Bytes per second."""
    files: int | None = None
    """Open files."""
    threads: int | None = None
    power: float | None = None
    """Watts: its share of GPUs and CPU packages."""
    totals: TaskTotals = TaskTotals()
    """Since its start."""


class OwnPoint(msgspec.Struct, frozen=True, array_like=True):
    """A figure that a task reported of itself."""

    key: str
    """Attempt key."""
    name: str
    step: float
    value: float
    at: float
    """Seconds since the epoch, by the node's clock."""


class OwnNotFinite(msgspec.Struct, frozen=True, array_like=True):
    """Values that a task reported which are no points: NaN and infinities."""

    key: str
    """Attempt key."""
    name: str
    step: float
    """That of the last one."""
    count: int


class OwnParameters(msgspec.Struct, frozen=True, array_like=True):
    """Parameters that a task said of itself."""

    key: str
    """Attempt key."""
    values: dict[str, str]
    left_out: int = 0
    """Values of further names, beyond those that an attempt may have."""


class OwnMedia(msgspec.Struct, frozen=True, array_like=True):
    """A text or a file that a task reported of itself."""

    key: str
    """Attempt key."""
    name: str
    step: float
    at: float
    """Seconds since the epoch, by the node's clock."""
    kind: str = "text"
    """``text``, ``picture``, ``table`` or ``file``."""
    text: str = ""
    file: str = ""
    """Its path in the job's output."""
    size: int = 0
    """Bytes of the file."""


class OwnTrouble(msgspec.Struct, frozen=True, array_like=True):
    """Something that a task reported and that is not kept."""

    key: str
    """Attempt key."""
    text: str
    """What it was, and why it is not kept."""
    count: int = 1


class UsageSample(msgspec.Struct, frozen=True):
    """The field ``body`` of an entry of the stream ``node:<n>:usage``."""

    at: float
    """Seconds since the epoch, by the node's clock."""
    node: NodeSample
    tasks: tuple[TaskSample, ...] = ()
    own: tuple[OwnPoint, ...] = ()
    """Since the previous sample; also the next two."""
    not_finite: tuple[OwnNotFinite, ...] = ()
    parameters: tuple[OwnParameters, ...] = ()
    media: tuple[OwnMedia, ...] = ()
    troubles: tuple[OwnTrouble, ...] = ()


USAGE_SAMPLE: Form[UsageSample] = Form(UsageSample)
