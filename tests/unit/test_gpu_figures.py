"""What is read of a GPU, and from which question to NVML. NVML's module is a double."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from grass.manifest.join_file import Offer
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.offers import beyond
from grass.wire.gpu import GpuDevice, GpuProcess, GpuSample
from grass.wire.hello import Probe, ProbeCheck
from grass.wire.usage import GpuUsage
from node.agent import gpu
from node.agent.gpu_usage import Meter, Metered
from node.agent.probe import _promised, probe
from node.agent.probe_record import remember
from tests.support.shepherd_run import cluster_config

GIB = 1 << 30
LOADED = "libc.so.6"
"""A library that every machine has. It stands for the driver's, which is loaded before its module."""


class NVMLError(Exception): ...


class NVMLError_NotSupported(NVMLError): ...


class NVMLError_FunctionNotFound(NVMLError): ...


class Nvml(SimpleNamespace):
    """Three devices. ``lost``: those that do not answer. All answers differ, so that none is taken for another.

    ``opened``: how often it was opened and not closed. ``old``: the driver knows the first version of memory only.
    """

    NVMLError, nvmlMemory_v2 = NVMLError, 2
    NVMLError_NotSupported, NVMLError_FunctionNotFound = NVMLError_NotSupported, NVMLError_FunctionNotFound

    def __init__(self) -> None:
        super().__init__(opened=0, lost=set[int](), old=False, ecc=0, sent=10, energy=5_000, pid=os.getpid(), broken="")

    def nvmlInit(self) -> None:
        if self.broken:
            raise NVMLError(self.broken)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        return 3

    def nvmlSystemGetDriverVersion(self) -> str:
        return "550.54"

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index in self.lost:
            raise NVMLError("GPU is lost")
        return f"handle {index}"

    def of(self, handle: str) -> int:
        assert handle.startswith("handle ")
        return int(handle[-1])

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return f"GPU-{self.of(handle)}"

    def nvmlDeviceGetName(self, handle: str) -> str:
        return f"model {self.of(handle)}"

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int = 1) -> Any:
        if version == 2 and self.old:
            raise NVMLError_FunctionNotFound
        at = self.of(handle)
        return SimpleNamespace(total=(80 + at) * GIB, used=(at + (3 if version == 1 else 1)) * GIB)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=self.pid, usedGpuMemory=7)] if self.of(handle) == 0 else []

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        if self.of(handle) == 2:
            raise NVMLError_NotSupported
        return SimpleNamespace(gpu=50 + self.of(handle))

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        assert sensor == 0
        return 60 + self.of(handle)

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, counter: int) -> int:
        assert counter == 0
        return {0: 9 + self.of(handle), 1: self.ecc}[kind]

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 100_000 * (1 + self.of(handle))

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        self.of(handle)
        return int(self.energy)

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        return {1: 1900, 2: 2600}[clock] + self.of(handle)

    def nvmlDeviceGetFieldValues(self, handle: str, wanted: list[tuple[int, int]]) -> list[Any]:
        self.of(handle)
        assert wanted == [(138, 0xFFFFFFFF), (139, 0xFFFFFFFF)]
        values = (self.sent, 3 * self.sent)
        return [
            SimpleNamespace(nvmlReturn=0, valueType=3, value=SimpleNamespace(ullVal=value), timestamp=0)
            for value in values
        ]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    made = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def reader(times: list[float]) -> gpu.GpuReader:
    known = [GpuDevice(at, f"GPU-{at}", f"model {at}", (80 + at) * GIB) for at in range(3)]
    return gpu.GpuReader(known, Meter(iter([each for each in times for _ in known]).__next__), LOADED)


def test_devices_are_listed_with_their_properties_and_a_lost_one_without(nvml: Nvml) -> None:
    nvml.lost.add(1)
    assert gpu.devices(LOADED) == [
        GpuDevice(0, "GPU-0", "model 0", 80 * GIB, "550.54"),
        GpuDevice(1),
        GpuDevice(2, "GPU-2", "model 2", 82 * GIB, "550.54"),
    ]
    assert nvml.opened == 0
    nvml.broken = "driver mismatch"
    assert gpu.devices(LOADED) == []


def test_a_sample_has_the_answers_of_its_device(nvml: Nvml) -> None:
    me = psutil.Process().username()
    read = reader([1.0])
    found = read.read([os.getpid()])
    assert found.samples == (
        GpuSample(0, 50, GIB, 60, 0, (GpuProcess(os.getpid(), me, 7, True),), None),
        GpuSample(1, 51, 2 * GIB, 61, 0),
        GpuSample(2, None, 3 * GIB, 62, 0),
    )
    assert nvml.opened == 1
    read.close()
    assert nvml.opened == 0


def test_a_process_of_somebody_else_makes_a_device_busy_and_an_old_driver_counts_more_memory(nvml: Nvml) -> None:
    nvml.old = True
    busy, free, _ = reader([1.0]).read([]).samples
    assert (busy.busy, busy.memory_used) == (psutil.Process().username(), 3 * GIB)
    assert (free.busy, free.memory_used) == (None, 4 * GIB)


def test_figures_of_a_device_and_rates_since_the_reading_before(nvml: Nvml) -> None:
    read = reader([1.0, 3.0])
    first = read.read([]).usages
    same: dict[str, Any] = {"power": 100.0, "temperature": 60, "clock": 1900, "memory_clock": 2600}
    same |= {"utilisation": 50, "memory": GIB, "memory_total": 80 * GIB, "ecc_corrected": 9, "ecc": 0}
    assert first[0] == GpuUsage(id=0, **same)
    assert (first[2].utilisation, first[2].power, first[2].clock, first[2].ecc_corrected) == (None, 300.0, 1902, 11)
    nvml.sent += 8
    second = read.read([])
    assert second.usages[0] == GpuUsage(id=0, **same, nvlink_sent=4 << 10, nvlink_received=12 << 10)
    assert nvml.opened == 1
    used = Metered(3.0, 2.0, 100.0, 0.5, 200.0, 1.0, (200.0, 1.0))
    assert second.metered[0] == used, "two seconds at 100 W, half busy"
    assert second.metered[2].kernel_seconds == 0.0 and second.metered[2].busy is None


def test_a_lost_device_has_an_error_and_the_driver_is_opened_anew(nvml: Nvml) -> None:
    read = reader([1.0, 3.0, 5.0])
    nvml.lost.add(0)
    found = read.read([])
    assert [each.error for each in found.samples] == ["GPU is lost", None, None]
    assert [each.id for each in found.usages] == [1, 2] and nvml.opened == 0
    nvml.lost.clear()
    assert [each.error for each in read.read([]).samples] == [None] * 3 and nvml.opened == 1
    nvml.ecc = 1
    assert [each.ecc for each in read.read([]).samples] == [1] * 3 and nvml.opened == 0
    nvml.broken = "driver mismatch"
    assert {each.error for each in read.read([]).samples} == {"the driver does not work: driver mismatch"}


def test_a_device_that_gets_lost_between_two_questions_says_so(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["handle 0"])

    def once(index: int) -> str:
        try:
            return next(answers)
        except StopIteration:
            raise NVMLError("GPU is lost") from None

    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByIndex", once, raising=False)
    found = gpu.GpuReader([GpuDevice(0)], library=LOADED).read([])
    assert found.samples[0].error is None and found.usages == (GpuUsage(id=0, error="GPU is lost"),)


@pytest.mark.parametrize(
    ("promised", "said"),
    [
        (None, []),
        (0, []),
        (2000, [(True, "its driver shows 2 GPUs; 2 were promised")]),
        (2500, [(False, "its driver shows 2 of the 3 promised GPUs; repair the driver until `nvidia-smi`")]),
    ],
)
def test_a_node_with_fewer_devices_than_it_promised_is_not_used(
    promised: int | None, said: list[tuple[bool, str]], tmp_path: Path
) -> None:
    config = cluster_config(tmp_path, tmp_path / "share")
    found = _promised(replace(config, node=replace(config.node, gpu=promised)), [0, 1])
    assert [(each.name, each.ok) for each in found] == [("gpu", ok) for ok, _ in said]
    assert all(each.message.startswith(text) for each, (_, text) in zip(found, said, strict=True))


def test_devices_that_are_missing_after_a_later_boot_fail_the_probe_until_they_are_back(tmp_path: Path) -> None:
    config = cluster_config(tmp_path, tmp_path / "share")
    config = replace(config, node=replace(config.node, gpu=2000))
    good = Probe(True, (ProbeCheck("process", True, "a task ran"),))
    remember(config, good)
    bad = probe(config, [0])
    assert not bad.passed and "shows 1 of the 2 promised GPUs" in bad.checks[0].message
    assert probe(config, [0, 1]) == good


def test_a_machine_of_a_size_joins_although_it_sees_fewer_gpus_than_the_size_has() -> None:
    facts = Facts(gpus=1)
    assert list(beyond(facts, Offer(gpu=2000))) == [
        "--gpu 2: this machine has 1 GPU; say less, or leave it out: then all is offered"
    ]
    assert list(beyond(facts, Offer(gpu=2000, gpu_of_size=True))) == []


def test_what_a_device_does_not_report_adds_nothing() -> None:
    assert Metered(1.0).next(3.0, None, None) == Metered(3.0, 2.0)
    assert Metered(1.0, watts=10.0).next(3.0, 30.0, None).joules == 40.0
