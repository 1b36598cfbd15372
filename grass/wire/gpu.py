"""GPUs in a node's reports: their properties (hello) and their state (heartbeat). Sent by node-agents."""

from __future__ import annotations

import msgspec


class GpuDevice(msgspec.Struct, frozen=True):
    """A device that a node has."""

    id: int
    """NVML's index."""
    uuid: str = ""
    name: str = ""
    memory: int = 0
    """Bytes; 0 with an empty name: the device does not answer."""
    driver: str = ""
    """Version of its driver."""


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that uses a device. ``user``: of the machine."""

    pid: int
    user: str
    memory: int | None
    """Bytes on the device; None: not reported by the driver."""
    ours: bool
    """Whether it belongs to a task of this cluster."""


class GpuSample(msgspec.Struct, frozen=True):
    """State of one device. None: not reported by the device."""

    id: int
    utilisation: int | None = None
    """Percent."""
    memory_used: int | None = None
    """Bytes."""
    temperature: int | None = None
    """Degrees Celsius."""
    ecc: int | None = None
    """Uncorrected memory errors since the last reset."""
    processes: tuple[GpuProcess, ...] = ()
    busy: str | None = None
    """User of a program on it that does not belong to Grass."""
    error: str | None = None
    """Why the device, or its driver, does not answer."""
