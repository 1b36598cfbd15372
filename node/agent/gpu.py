"""The node's GPUs, by NVML. The only module that imports it; where it or the driver is missing there are none.

NVML may fail at any call, and a driver that is lost may not return at all: samples are taken in a thread of their own,
and what failed is reported as the ``error`` of the devices, never raised. The master decides what follows from that.
"""

from __future__ import annotations

import ctypes
import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psutil

from grass import clock
from grass.wire.gpu import GpuDevice, GpuProcess, GpuSample
from node.runtime import proc

EVERY = 2.0
"""Seconds between samples."""
OVERDUE = 10.0
"""Seconds without a sample after which the driver counts as lost."""
LIBRARY = "libnvidia-ml.so.1"
"""NVML, which the driver brings."""
_CONTAINER = re.compile(rb"[0-9a-f]{64}")
_TEMPERATURE_OF_GPU = 0
_UNCORRECTED, _SINCE_BOOT = 1, 0

log = logging.getLogger(__name__)


def devices(library: str = LIBRARY) -> list[GpuDevice]:
    """By device index."""
    nvml = _nvml(library)
    if nvml is None:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        log.warning("there is a GPU driver that does not work, so this node offers no GPUs: %s", error)
        return []
    try:
        return [_device_or_lost(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as error:
        log.warning("the GPUs cannot be listed, so this node offers none: %s", error)
        return []
    finally:
        _quietly(nvml, nvml.nvmlShutdown)


class GpuWatch:
    """``roots``: pids whose descendants, and whose containers, are Grass's own. Samples the devices ``known``."""

    def __init__(
        self, known: Sequence[GpuDevice], roots: Callable[[], Iterable[int]], overdue: float = OVERDUE
    ) -> None:
        self._known = known
        self._overdue = overdue
        self._roots = roots
        self._samples: tuple[GpuSample, ...] = ()
        self._at = clock.steady()
        self._stop = threading.Event()

    def start(self) -> None:
        """Nothing is started, nor loaded, where there are no devices."""
        if self._known:
            threading.Thread(target=self._run, name="gpus", daemon=True).start()

    def stop(self) -> None:
        """Does not wait for a driver that does not return."""
        self._stop.set()

    def samples(self) -> tuple[GpuSample, ...]:
        """The newest of each device."""
        silence = clock.steady() - self._at
        if self._known and silence > self._overdue:
            return _all_lost(self._known, f"the driver has not answered for {self._overdue:g} s")
        return self._samples

    def _run(self) -> None:
        while not self._stop.is_set():
            self._samples = sample(self._known, self._roots())
            self._at = clock.steady()
            self._stop.wait(EVERY)


def sample(known: Sequence[GpuDevice], roots: Iterable[int], library: str = LIBRARY) -> tuple[GpuSample, ...]:
    """One of each known device; those that cannot be asked have an ``error``. The driver is opened and closed."""
    nvml = _nvml(library)
    if nvml is None:
        return _all_lost(known, f"{library} is gone")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return _all_lost(known, f"the driver does not work: {error}")
    try:
        own = _Own(roots)
        return tuple(_sample(nvml, device, own) for device in known)
    finally:
        _quietly(nvml, nvml.nvmlShutdown)


def _nvml(library: str) -> Any:
    """NVML's Python module; None where there is no driver. Looking first saves 10 MiB on machines without one."""
    try:
        ctypes.CDLL(library)
        import pynvml
    except (OSError, ImportError):
        return None
    return pynvml


def _device_or_lost(nvml: Any, index: int) -> GpuDevice:
    """One that is lost is listed all the same, so that it is seen: each sample of it has the error, and no task gets
    it. What it is will be known when it is back and the node-agent was started again."""
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
    )


def _sample(nvml: Any, device: GpuDevice, own: _Own) -> GpuSample:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(device.id)
        processes = tuple(
            _process(each.pid, each.usedGpuMemory, own) for each in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        )
        return GpuSample(
            id=device.id,
            utilisation=_if_told(nvml, lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
            memory_used=int(nvml.nvmlDeviceGetMemoryInfo(handle).used),
            temperature=_if_told(nvml, lambda: int(nvml.nvmlDeviceGetTemperature(handle, _TEMPERATURE_OF_GPU))),
            ecc=_if_told(nvml, lambda: int(nvml.nvmlDeviceGetTotalEccErrors(handle, _UNCORRECTED, _SINCE_BOOT))),
            processes=processes,
            busy=next((each.user for each in processes if not each.ours), None),
        )
    except nvml.NVMLError as error:
        return GpuSample(device.id, error=str(error))


def _if_told(nvml: Any, question: Callable[[], int]) -> int | None:
    """Not every device tells everything."""
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
    """Which processes are tasks: descendants of the roots, or in one of the containers that a root is in."""

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
    found = _CONTAINER.search(proc.read(f"/proc/{pid}/cgroup"))
    return found.group() if found else None


def _quietly(nvml: Any, work: Callable[[], None]) -> None:
    try:
        work()
    except nvml.NVMLError as error:
        log.debug("NVML: %s", error)
