"""The figures of a GPU for the usage stream: power, clocks, NVLink; and its sums, from which tasks get their part.

``Meter`` is called by ``gpu``, in its thread, for each device. ``Metered`` is what the ledger reads.

Each figure may be missing: drivers and models report different ones. NVML's module is an argument, because only ``gpu``
may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from grass import clock
from grass.wire.gpu import GpuDevice, GpuSample
from grass.wire.usage import GpuUsage

_T = TypeVar("_T")
_CORRECTED, _SINCE_BOOT = 0, 0
_SM, _MEMORY = 1, 2
_NVLINK_SENT, _NVLINK_RECEIVED = 138, 139
_ALL_LINKS = 0xFFFFFFFF
_TYPE_UNSIGNED_LONG_LONG = 3


class Metered(NamedTuple):
    """What a device used up to the steady time ``at``: sums since the first reading.

    ``watts`` and ``busy`` (the share of the time in which a kernel ran, 0 to 1) are averages over the last ``seconds``.
    None: the device does not report it.
    """

    at: float
    seconds: float = 0.0
    watts: float | None = None
    busy: float | None = None
    joules: float = 0.0
    kernel_seconds: float = 0.0

    def next(self, at: float, watts: float | None, busy: float | None) -> Metered:
        seconds = at - self.at
        joules, kernel = self.joules + (watts or 0.0) * seconds, self.kernel_seconds + (busy or 0.0) * seconds
        return Metered(at, seconds, watts, busy, joules, kernel)


class GpuReading(NamedTuple):
    """The devices at one time: for the heartbeat, for the usage stream, and for the ledger, by device id."""

    samples: tuple[GpuSample, ...] = ()
    usages: tuple[GpuUsage, ...] = ()
    metered: Mapping[int, Metered] = {}


class _Counts(NamedTuple):
    """Counters of one device: joules, and bytes over all NVLinks. ``at``: steady seconds."""

    at: float
    energy: float | None
    sent: int | None
    received: int | None


class Meter:
    """Remembers the counters of the last call, from which rates and the average power are computed."""

    def __init__(self, steady: Callable[[], float] = clock.steady) -> None:
        self._steady = steady
        self._before: dict[int, _Counts] = {}
        self._metered: dict[int, Metered] = {}

    def metered(self) -> dict[int, Metered]:
        """Return the sums of each device that has answered."""
        return self._metered.copy()

    def read(self, nvml: Any, handle: Any, device: GpuDevice, sample: GpuSample) -> GpuUsage:
        """Return the figures of a device that answers."""
        before, now = self._before.get(device.id), _counts(nvml, handle, self._steady())
        self._before[device.id] = now
        seconds = now.at - before.at if before else 0.0
        joules = _growth(before and before.energy, now.energy)
        drawn = joules / seconds if joules is not None and seconds > 0 else _watts(nvml, handle)
        busy = None if sample.utilisation is None else sample.utilisation / 100
        self._metered[device.id] = self._metered.get(device.id, Metered(now.at)).next(now.at, drawn, busy)
        return GpuUsage(
            id=device.id,
            utilisation=sample.utilisation,
            memory=sample.memory_used,
            memory_total=device.memory or None,
            power=None if drawn is None else round(drawn, 1),
            temperature=sample.temperature,
            clock=_supported(nvml, lambda: int(nvml.nvmlDeviceGetClockInfo(handle, _SM))),
            memory_clock=_supported(nvml, lambda: int(nvml.nvmlDeviceGetClockInfo(handle, _MEMORY))),
            ecc_corrected=_supported(
                nvml, lambda: int(nvml.nvmlDeviceGetTotalEccErrors(handle, _CORRECTED, _SINCE_BOOT))
            ),
            ecc=sample.ecc,
            nvlink_sent=_rate(before and before.sent, now.sent, seconds),
            nvlink_received=_rate(before and before.received, now.received, seconds),
        )


def _counts(nvml: Any, handle: Any, at: float) -> _Counts:
    millijoules = _supported(nvml, lambda: int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)))
    sent, received = _nvlink(nvml, handle)
    return _Counts(at, None if millijoules is None else millijoules / 1000, sent, received)


def _nvlink(nvml: Any, handle: Any) -> tuple[int | None, int | None]:
    """Return the bytes sent and received over all links. The driver counts KiB."""
    wanted = [(_NVLINK_SENT, _ALL_LINKS), (_NVLINK_RECEIVED, _ALL_LINKS)]
    values = _supported(nvml, lambda: nvml.nvmlDeviceGetFieldValues(handle, wanted))
    if values is None:
        return None, None
    sent, received = (
        None if each.nvmlReturn or each.valueType != _TYPE_UNSIGNED_LONG_LONG else int(each.value.ullVal) << 10
        for each in values
    )
    return sent, received


def _watts(nvml: Any, handle: Any) -> float | None:
    """Return the power at this moment, for devices without a counter of energy, and for the first sample."""
    milliwatts = _supported(nvml, lambda: int(nvml.nvmlDeviceGetPowerUsage(handle)))
    return None if milliwatts is None else milliwatts / 1000


def _supported(nvml: Any, question: Callable[[], _T]) -> _T | None:
    try:
        return question()
    except nvml.NVMLError:
        return None


def _growth(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None or now < before else now - before


def _rate(before: int | None, now: int | None, seconds: float) -> int | None:
    grown = _growth(before, now)
    return None if grown is None or seconds <= 0 else round(grown / seconds)
