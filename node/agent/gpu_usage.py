"""The figures of a GPU for the usage stream: power, clocks, NVLink; and its sums, from which tasks get their part.

``Meter`` is called by ``gpu``, in its thread, for each device. ``Metered`` is what the ledger reads.

Each figure may be missing: drivers and models report different ones. NVML's module is an argument, because only ``gpu``
may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from grass.system import clock
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

    ``seconds``: since the reading before. ``watts`` and ``busy`` (the share of the time in which a kernel ran, 0 to 1):
    at this reading. None: the device does not report it.
    """

    at: float
    seconds: float = 0.0
    watts: float | None = None
    busy: float | None = None
    joules: float = 0.0
    kernel_seconds: float = 0.0
    last: tuple[float, float] = (0.0, 0.0)
    """Joules, and seconds with a kernel, since the reading before."""

    def next(self, at: float, watts: float | None, busy: float | None, joules: float | None = None) -> Metered:
        """``joules``: in this interval; None: by the watts. Between two readings, the mean of both is assumed."""
        seconds = at - self.at
        if joules is None:
            joules = _mean(self.watts, watts) * seconds
        kernel = _mean(self.busy, busy) * seconds
        sums = self.joules + joules, self.kernel_seconds + kernel
        return Metered(at, seconds, watts, busy, *sums, last=(joules, kernel))


class GpuReading(NamedTuple):
    """The devices at one time: for the heartbeat, for the usage stream, and for the ledger, by device id."""

    samples: tuple[GpuSample, ...] = ()
    usages: tuple[GpuUsage, ...] = ()
    metered: Mapping[int, Metered] = {}


class _Links(NamedTuple):
    """Bytes over all NVLinks of one device, since it was started. None: it does not count them."""

    sent: int | None = None
    received: int | None = None


class _Energy:
    """The energy of one device: its counter whenever that is read, and its watts in between."""

    def __init__(self) -> None:
        self._counter: float | None = None
        self._estimated = 0.0
        """Joules since the counter was read."""

    def used(self, estimate: float, counter: float | None) -> float:
        """Return the joules of an interval: ``estimate``, or by the counter, with what is missing of earlier ones."""
        if counter is None:
            self._estimated += estimate
            return estimate
        before, estimated = self._counter, self._estimated
        self._counter, self._estimated = counter, 0.0
        return estimate if before is None or counter < before else max(0.0, counter - before - estimated)


class Meter:
    """Remembers the counters of the last call, from which rates and sums are computed.

    To read the counter of energy takes 4 ms of processor time (H200), everything else together 0.1 ms. So it is read
    only if ``exact``, and corrects what was estimated since the time before.
    """

    def __init__(self, steady: Callable[[], float] = clock.steady) -> None:
        self._steady = steady
        self._links: dict[int, _Links] = {}
        self._energy: dict[int, _Energy] = {}
        self._metered: dict[int, Metered] = {}

    def metered(self) -> dict[int, Metered]:
        """Return the sums of each device that has answered."""
        return self._metered.copy()

    def read(self, nvml: Any, handle: Any, device: GpuDevice, sample: GpuSample, *, exact: bool) -> GpuUsage:
        """Return the figures of a device that answers."""
        at = self._steady()
        before = self._metered.get(device.id, Metered(at))
        links, links_before = _nvlink(nvml, handle), self._links.get(device.id, _Links())
        watts, counter = _watts(nvml, handle), _joules(nvml, handle) if exact else None
        busy = None if sample.utilisation is None else sample.utilisation / 100
        estimate, _ = before.next(at, watts, busy).last
        joules = self._energy.setdefault(device.id, _Energy()).used(estimate, counter)
        now = self._metered[device.id] = before.next(at, watts, busy, joules)
        self._links[device.id] = links
        return GpuUsage(
            id=device.id,
            utilisation=sample.utilisation,
            memory=sample.memory_used,
            memory_total=device.memory or None,
            power=None if watts is None else round(watts, 1),
            temperature=sample.temperature,
            clock=_supported(nvml, lambda: int(nvml.nvmlDeviceGetClockInfo(handle, _SM))),
            memory_clock=_supported(nvml, lambda: int(nvml.nvmlDeviceGetClockInfo(handle, _MEMORY))),
            ecc_corrected=_supported(
                nvml, lambda: int(nvml.nvmlDeviceGetTotalEccErrors(handle, _CORRECTED, _SINCE_BOOT))
            ),
            ecc=sample.ecc,
            nvlink_sent=_rate(links_before.sent, links.sent, now.seconds),
            nvlink_received=_rate(links_before.received, links.received, now.seconds),
        )


def _joules(nvml: Any, handle: Any) -> float | None:
    millijoules = _supported(nvml, lambda: int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)))
    return None if millijoules is None else millijoules / 1000


def _nvlink(nvml: Any, handle: Any) -> _Links:
    """Return the bytes sent and received over all links. The driver counts KiB."""
    wanted = [(_NVLINK_SENT, _ALL_LINKS), (_NVLINK_RECEIVED, _ALL_LINKS)]
    values = _supported(nvml, lambda: nvml.nvmlDeviceGetFieldValues(handle, wanted))
    if values is None:
        return _Links()
    sent, received = (
        None if each.nvmlReturn or each.valueType != _TYPE_UNSIGNED_LONG_LONG else int(each.value.ullVal) << 10
        for each in values
    )
    return _Links(sent, received)


def _watts(nvml: Any, handle: Any) -> float | None:
    """Return the power: an average over a second where the device has one, otherwise that of this moment."""
    milliwatts = _supported(nvml, lambda: int(nvml.nvmlDeviceGetPowerUsage(handle)))
    return None if milliwatts is None else milliwatts / 1000


def _supported(nvml: Any, question: Callable[[], _T]) -> _T | None:
    try:
        return question()
    except nvml.NVMLError:
        return None


def _mean(before: float | None, now: float | None) -> float:
    known = [each for each in (before, now) if each is not None]
    return sum(known) / len(known) if known else 0.0


def _rate(before: int | None, now: int | None, seconds: float) -> int | None:
    grown = None if before is None or now is None or now < before else now - before
    return None if grown is None or seconds <= 0 else round(grown / seconds)
