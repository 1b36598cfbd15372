"""What the node-agent sees of GPUs, over a stub of NVML with four of them."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grass.manifest.local_settings import LocalSettings, OfferedResources
from grass.store.embedded import NoRedisError, find_server
from grass.wire.gpu import GpuDevice
from grass.wire.task_events import Started
from node.agent import gpu
from tests.support.local_cluster import LocalCluster
from tests.support.needs import missing
from tests.support.node_run import NodeRun
from tests.support.nvml import StubDriver
from tests.support.waiting import wait_until

KNOWN = "gpu.devices()"


@pytest.fixture
def driver(tmp_path: Path) -> StubDriver:
    return StubDriver(tmp_path)


def test_the_devices_of_a_machine(driver: StubDriver) -> None:
    found = driver.ask(KNOWN)
    assert [device["id"] for device in found] == [0, 1, 2, 3]
    known = {"name": "NVIDIA Stub 80GB", "memory": 80 << 30, "driver": "550.54.14"}
    assert found[2] == {"id": 2, "uuid": "GPU-stub-2", **known}


def test_a_driver_that_does_not_work_offers_no_devices(driver: StubDriver) -> None:
    driver.set(init=9)
    assert driver.ask(KNOWN) == []


def test_a_machine_without_a_driver_has_no_devices() -> None:
    assert gpu.devices("libno-such-driver.so.1") == []
    [lost] = gpu.GpuReader([GpuDevice(0)], library="libno-such-driver.so.1").read([]).samples
    assert "is gone" in (lost.error or "")


def test_a_new_cluster_offers_the_gpus_that_the_driver_counts(driver: StubDriver) -> None:
    def offered() -> int:
        argv = [sys.executable, "-c", "from grass.provision import machine; print(machine.gpus())"]
        return int(subprocess.run(argv, env=driver.env, capture_output=True, check=True).stdout)

    assert offered() == 4000
    driver.set(count=0)
    assert offered() == 0
    driver.set(init=9)
    assert offered() == 1000 * sum(re.fullmatch(r"nvidia\d+", each.name) is not None for each in Path("/dev").iterdir())


def test_a_sample_of_each_device(driver: StubDriver) -> None:
    driver.set(_1_util=57, _1_temp=71, _1_used=5 << 30, _1_ecc=2)
    samples = driver.ask(f"gpu.GpuReader({KNOWN}).read([]).samples")
    assert samples[1] == {
        "id": 1,
        "utilisation": 57,
        "memory_used": 5 << 30,
        "temperature": 71,
        "ecc": 2,
        "processes": [],
        "busy": None,
        "error": None,
    }
    assert samples[0]["ecc"] is None  # it does not tell


def test_the_figures_of_a_device_for_the_usage_stream(driver: StubDriver) -> None:
    driver.set(_1_util=57, _1_power=250_500, _1_clock=1980, _1_used=5 << 30, _2_fails=15)
    known = "[gpu.GpuDevice(index, 'u', 'n', 80 << 30) for index in range(3)]"
    figures = driver.ask(f"gpu.GpuReader({known}).read([]).usages")
    assert [each["id"] for each in figures] == [0, 1]
    expected = {"utilisation": 57, "power": 250.5, "clock": 1980, "memory_clock": 1000, "memory": 5 << 30}
    assert expected.items() <= figures[1].items()
    assert not {"power", "ecc", "nvlink_sent"} & figures[0].keys()  # it does not tell


def test_traffic_of_a_device_is_the_average_of_its_counters(driver: StubDriver) -> None:
    driver.set(_0_nvlinksent=100, _0_nvlinkreceived=5)
    twice = (
        "(lambda reader: [reader.read([]).usages,"
        f" open({str(driver.state)!r}, 'a').write('0.nvlinksent 4100\\n'), reader.read([]).usages])"
        "(gpu.GpuReader([gpu.GpuDevice(0)], gpu.Meter(iter([10.0, 12.0]).__next__)))"
    )
    [first], _, [second] = driver.ask(twice)
    assert "nvlink_sent" not in first
    assert second["nvlink_sent"] == 2000 << 10 and second["nvlink_received"] == 0


@pytest.mark.parametrize(
    ("devices", "joules"),
    [(1, [0.0, 600.0, 600.0]), (2, [0.0, 2 * 200.0, 600.0])],  # of two devices, each counter is read every other time
)
def test_energy_is_that_of_the_counter_and_estimated_in_between(
    driver: StubDriver, devices: int, joules: list[float]
) -> None:
    driver.set(_0_energy=1_000_000, _0_power=200_000, _1_energy=0, _1_power=0)
    times = [each for second in (10.0, 12.0, 14.0) for each in [second] * devices]
    thrice = (
        "(lambda reader: [reader.read([]).metered[0].joules,"
        f" open({str(driver.state)!r}, 'a').write('0.energy 1600000\\n') * 0.0,"
        " reader.read([]).metered[0].joules, reader.read([]).metered[0].joules])"
        f"(gpu.GpuReader([gpu.GpuDevice(index) for index in range({devices})], gpu.Meter(iter({times}).__next__)))"
    )
    first, _, second, third = driver.ask(thrice)
    assert [first, second, third] == joules


def test_what_the_driver_keeps_for_itself_is_not_memory_in_use(driver: StubDriver) -> None:
    driver.set(_0_used=5 << 30, _0_reserved=1 << 30)
    assert driver.ask(f"gpu.GpuReader({KNOWN}).read([]).samples")[0]["memory_used"] == 4 << 30


@pytest.mark.parametrize(("errors", "calls"), [(0, "o"), (2, "ococ")])
def test_the_driver_stays_open_while_its_devices_are_well(driver: StubDriver, errors: int, calls: str) -> None:
    driver.set(_0_ecc=errors)
    driver.ask("(lambda reader: [reader.read([]).usages, reader.read([]).usages])(gpu.GpuReader([gpu.GpuDevice(0)]))")
    assert driver.calls() == calls


def test_a_process_that_is_not_ours_makes_a_device_busy_with_its_owner(driver: StubDriver) -> None:
    with subprocess.Popen(["sleep", "100"]) as task:
        driver.set(_0_pid=task.pid, _0_pidmemory=7, _3_pid=os.getppid())
        ours, *_, foreign = driver.ask(f"gpu.GpuReader({KNOWN}).read([{os.getpid()}]).samples")
        task.kill()
    assert ours["processes"] == [{"pid": task.pid, "user": getpass.getuser(), "memory": 7, "ours": True}]
    assert ours["busy"] is None
    assert foreign["busy"] == foreign["processes"][0]["user"] and not foreign["processes"][0]["ours"]


def test_a_device_that_is_lost_is_reported_and_the_others_go_on(driver: StubDriver) -> None:
    driver.set(_2_fails=15)
    known = "[gpu.GpuDevice(index) for index in range(4)]"
    samples = driver.ask(f"gpu.GpuReader({known}).read([]).samples")
    assert [sample["error"] for sample in samples] == [None, None, "GPU is lost", None]
    driver.set(init=15)
    assert all("does not work" in sample["error"] for sample in driver.ask(f"gpu.GpuReader({known}).read([]).samples"))


def test_a_driver_that_hangs_is_reported_by_its_silence() -> None:
    watch = gpu.GpuWatch([GpuDevice(0)], list, overdue=-1.0)
    [lost] = watch.reading().samples
    assert "has not answered" in (lost.error or "")


def test_a_device_that_is_lost_at_the_start_is_listed_all_the_same(driver: StubDriver) -> None:
    driver.set(_1_fails=15)
    found = driver.ask(KNOWN)
    assert [device["uuid"] for device in found] == ["GPU-stub-0", "", "GPU-stub-2", "GPU-stub-3"]
    assert driver.ask(f"gpu.GpuReader({KNOWN}).read([]).samples")[1]["error"] == "GPU is lost"


@pytest.mark.needs_redis
def test_a_device_that_is_lost_or_erroneous_goes_to_no_task_until_it_is_well_or_forgiven(
    driver: StubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LD_LIBRARY_PATH", "NVIDIA_STUB"):
        monkeypatch.setenv(name, driver.env[name])
    driver.set(count=2, _1_ecc=0)
    cluster = LocalCluster(LocalSettings(resources=OfferedResources(cpu=4000, gpu=2000)))
    try:
        cluster.create()
        with cluster.client() as client:

            def quarantine() -> dict[str, str]:
                found: dict[str, str] = client.node("local").quarantine
                return found

            def ends_on(job: str) -> str:
                client.wait(job, timeout=30)
                return "".join(each.text for each in client.logs(job)).strip()

            devices = {"command": "echo $CUDA_VISIBLE_DEVICES", "resources": {"cpu": 1, "gpu": 1}}
            driver.set(_0_fails=15)
            wait_until(lambda: quarantine() == {"0": "GPU is lost"}, 30, "the loss of gpu 0")
            assert client.node("local").state == "READY"
            client.start({"name": "one", "components": {"t": devices}})
            assert ends_on("one") == "1"
            both = {**devices, "resources": {"cpu": 1, "gpu": 2}}
            client.start({"name": "both", "components": {"t": both}})
            said = "local: gpu 0 is in quarantine: GPU is lost"
            wait_until(lambda: said in str(client.why("both").groups), 30, "the reason")
            driver.set(_0_fails=0, _1_ecc=3)
            wait_until(lambda: list(quarantine()) == ["1"], 30, "the errors of gpu 1")
            wait_until(lambda: "3 uncorrected ECC errors" in str(client.why("both").groups), 30, "the reason")
            client.uncordon("local")
            assert ends_on("both") == "0,1"
            assert quarantine() == {}
    finally:
        cluster.end()


def test_the_node_agent_tells_of_its_devices_and_gives_them_to_tasks(
    driver: StubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        find_server()
    except NoRedisError as error:
        missing("redis", str(error))
    for name in ("LD_LIBRARY_PATH", "NVIDIA_STUB"):
        monkeypatch.setenv(name, driver.env[name])
    with NodeRun() as node:
        node.wait(lambda: bool(node.hellos))
        assert [device.uuid for device in node.hellos[0].gpus] == [f"GPU-stub-{index}" for index in range(4)]
        assert node.hellos[0].resources.gpu == 4000
        node.wait(lambda: bool(node.usage.gpus))
        node.start("exec sleep 100", "j-1/c.0/1")
        task = node.event("j-1/c.0/1", Started).pid
        driver.set(_1_util=88, _0_pid=task, _2_pid=os.getpid(), _3_fails=15)
        node.wait(lambda: node.usage.gpus and node.usage.gpus[1].utilisation == 88 and node.usage.gpus[0].processes)
        ours, _, foreign, lost = node.usage.gpus
        assert ours.processes[0].ours and ours.busy is None
        assert foreign.busy == getpass.getuser() and lost.error == "GPU is lost"
