"""The node's GPUs, read through NVML. Only this module imports it. Without NVML or a driver, a node has no GPUs.

NVML may fail at any call, and a call to a lost driver may never return. So samples are taken in a separate thread, and
a failure is reported as the ``error`` of the devices, never raised. The master decides what follows.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import psutil

from grass.system import clock
from grass.wire.gpu import GpuDevice, GpuProcess, GpuSample
from grass.wire.usage import GpuUsage
from node.agent.gpu_usage import GpuReading, Meter
from node.runtime import proc

EVERY = 2.0
"""Seconds between samples."""
OVERDUE = 10.0
"""Seconds without a sample after which the driver counts as lost."""
LIBRARY = "libnvidia-ml.so.1"
"""NVML, a part of the driver."""
_TEMPERATURE_OF_GPU = 0
_UNCORRECTED, _SINCE_BOOT = 1, 0

log = logging.getLogger(__name__)


def devices(library: str = LIBRARY) -> list[GpuDevice]:
    """Return the devices in order of their index."""
    nvml = _nvml(library)
    if nvml is None:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        log.warning("the GPU driver does not work (%s); this node offers no GPUs", error)
        return []
    try:
        return [_device_or_lost(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as error:
        log.warning("the GPUs cannot be listed (%s); this node offers no GPUs", error)
        return []
    finally:
        _quietly(nvml, nvml.nvmlShutdown)


class GpuWatch:
    """Samples the devices ``known``. ``roots``: pids whose descendants and containers belong to Grass."""

    def __init__(
        self, known: Sequence[GpuDevice], roots: Callable[[], Iterable[int]], overdue: float = OVERDUE
    ) -> None:
        self._known = known
        self._overdue = overdue
        self._roots = roots
        self._reading = GpuReading()
        self._at = clock.steady()
        self._stop = threading.Event()

    def start(self) -> None:
        """Start the thread; without devices, do nothing and load nothing."""
        if self._known:
            threading.Thread(target=self._run, name="gpus", daemon=True).start()

    def stop(self) -> None:
        """Stop without waiting: the driver may never return."""
        self._stop.set()

    def reading(self) -> GpuReading:
        """Return the newest figures of each device."""
        samples, usages, metered = self._reading
        if self._known and clock.steady() - self._at > self._overdue:
            samples = _all_lost(self._known, f"the driver has not answered for {self._overdue:g} s")
        lost = {sample.id: sample.error for sample in samples if sample.error}
        figures = {usage.id: usage for usage in usages if usage.id not in lost}
        devices = (figures.get(each.id) or GpuUsage(id=each.id, error=lost.get(each.id)) for each in self._known)
        return GpuReading(samples, tuple(devices), metered)

    def _run(self) -> None:
        reader = GpuReader(self._known)
        while not self._stop.is_set():
            self._reading = reader.read(self._roots())
            self._at = clock.steady()
            self._stop.wait(EVERY)


class GpuReader:
    """Reads devices through NVML, which stays open: to open it takes 20 ms of processor time.

    It is closed while a device does not answer or has errors. So an administrator can reset that device, and the driver
    finds it again.
    """

    def __init__(self, known: Sequence[GpuDevice], meter: Meter | None = None, library: str = LIBRARY) -> None:
        self._known = known
        self._meter = meter or Meter()
        self._library = library
        self._nvml: Any = None
        """NVML's Python module, while it is open."""
        self._turn = -1
        """Index of the device whose counter of energy was read last: one at each time, because that is slow."""

    def read(self, roots: Iterable[int]) -> GpuReading:
        """A device that does not answer has a sample with an ``error``, and no figures."""
        why = "" if self._nvml else self._open()
        if why:
            return GpuReading(_all_lost(self._known, why), (), self._meter.metered())
        own = _Own(roots)
        samples = tuple(_sample(self._nvml, device, own) for device in self._known)
        self._turn = (self._turn + 1) % max(1, len(self._known))
        usages = tuple(self._usages(samples))
        if any(sample.error or sample.ecc for sample in samples):
            self.close()
        return GpuReading(samples, usages, self._meter.metered())

    def close(self) -> None:
        if self._nvml:
            _quietly(self._nvml, self._nvml.nvmlShutdown)
            self._nvml = None

    def _usages(self, samples: Sequence[GpuSample]) -> Iterator[GpuUsage]:
        nvml = self._nvml
        for index, (device, sampled) in enumerate(zip(self._known, samples, strict=True)):
            if sampled.error is None:
                try:
                    handle = nvml.nvmlDeviceGetHandleByIndex(device.id)
                    yield self._meter.read(nvml, handle, device, sampled, exact=index == self._turn)
                except nvml.NVMLError as error:
                    yield GpuUsage(id=device.id, error=str(error))

    def _open(self) -> str:
        """Return why it cannot be opened; empty: it is open."""
        nvml = _nvml(self._library)
        if nvml is None:
            return f"{self._library} is gone"
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            return f"the driver does not work: {error}"
        self._nvml = nvml
        return ""


def _nvml(library: str) -> Any:
    """Return NVML's Python module; None without a driver. The check saves 10 MiB on machines without one."""
    try:
        ctypes.CDLL(library)
        import pynvml
    except (OSError, ImportError):
        return None
    return pynvml


def _device_or_lost(nvml: Any, index: int) -> GpuDevice:
    """Return a device. A lost one is listed, too, so that users see it: its samples have the error, and no task gets
    it. Its properties are known after it works again and the node-agent was restarted."""
    try:
        return _device(nvml, index)
    except nvml.NVMLError as error:
        log.warning("gpu %d does not answer: %s", index, error)
        return GpuDevice(index)


def _device(nvml: Any, index: int) -> GpuDevice:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    return GpuDevice(
        id=index,
        uuid=nvml.nvmlDeviceGetUUID(handle),
        name=nvml.nvmlDeviceGetName(handle),
        memory=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver=_driver(nvml),
    )


def _driver(nvml: Any) -> str:
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return ""


def _sample(nvml: Any, device: GpuDevice, own: _Own) -> GpuSample:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(device.id)
        processes = tuple(
            _process(each.pid, each.usedGpuMemory, own) for each in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        )
        return GpuSample(
            id=device.id,
            utilisation=_if_supported(nvml, lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
            memory_used=int(_memory(nvml, handle).used),
            temperature=_if_supported(nvml, lambda: int(nvml.nvmlDeviceGetTemperature(handle, _TEMPERATURE_OF_GPU))),
            ecc=_if_supported(nvml, lambda: int(nvml.nvmlDeviceGetTotalEccErrors(handle, _UNCORRECTED, _SINCE_BOOT))),
            processes=processes,
            busy=next((each.user for each in processes if not each.ours), None),
        )
    except nvml.NVMLError as error:
        return GpuSample(device.id, error=str(error))


def _memory(nvml: Any, handle: Any) -> Any:
    """Return the memory of a device. The second version does not count what the driver keeps for itself as used."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError_FunctionNotFound, nvml.NVMLError_NotSupported):
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _if_supported(nvml: Any, question: Callable[[], int]) -> int | None:
    """Return the answer; None if the device does not support the question."""
    try:
        return question()
    except nvml.NVMLError_NotSupported:
        return None


def _all_lost(known: Sequence[GpuDevice], error: str) -> tuple[GpuSample, ...]:
    return tuple(GpuSample(device.id, error=error) for device in known)


def _process(pid: int, memory: int | None, own: _Own) -> GpuProcess:
    try:
        user = psutil.Process(pid).username()
    except psutil.Error:
        user = "unknown"
    return GpuProcess(pid, user, memory, own.has(pid))


class _Own:
    """The processes that belong to tasks: descendants of the roots, and processes in the container of a root."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = set(roots)
        self._containers = {_container(pid) for pid in self._roots} - {None}

    def has(self, pid: int) -> bool:
        if _container(pid) in self._containers:
            return True
        while pid > 1:
            if pid in self._roots:
                return True
            stat = proc.stat(pid)
            pid = stat.parent if stat else 0
        return False


def _container(pid: int) -> bytes | None:
    return proc.container_in(proc.read(f"/proc/{pid}/cgroup"))


def _quietly(nvml: Any, work: Callable[[], None]) -> None:
    try:
        work()
    except nvml.NVMLError as error:
        log.debug("NVML: %s", error)
