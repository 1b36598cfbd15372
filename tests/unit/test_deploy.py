"""What an operator gets: unit files that systemd accepts, for the daemons that there are."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from grass.assets import asset
from grass.model.daemons import DAEMONS, REDIS, TASK_REDIS
from grass.supervision.daemon_ends import noted_by_systemd
from grass.system.systemd import SILENCE
from grass.wire.daemon_end import sentence
from tests.support.needs import require

MODULES = {daemon.name: daemon.module for daemon in DAEMONS}
UNITS = asset("deploy/systemd")
SECURITY = Path(__file__).parents[2] / "docs" / "security.md"


def sections(unit: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(unit)
    return parser


def test_there_is_one_unit_for_each_daemon() -> None:
    found = {path.name for path in UNITS.glob("*.service")}
    others = {
        "autoscaler",
        "follow",
        "samba",
        "fluentd",
        "fluentd-container",
        "share-cifs",
        "share-fuse",
        "standby",
        "takeover",
    }
    assert found - {f"grass-{name}@.service" for name in others} == {
        f"grass-{name}@.service" for name in (REDIS, TASK_REDIS, *MODULES)
    }


@pytest.mark.parametrize("name", [name for name in MODULES if name != "shepherd"])
def test_systemd_waits_until_a_daemon_is_ready_and_restarts_one_that_hangs(name: str) -> None:
    service = sections(UNITS / f"grass-{name}@.service")["Service"]
    assert service["Type"] == "notify"
    assert float(service["WatchdogSec"]) == SILENCE


@pytest.mark.parametrize("name", MODULES)
def test_a_unit_runs_the_daemons_module_as_an_own_user_for_ever(name: str) -> None:
    service = sections(UNITS / f"grass-{name}@.service")["Service"]
    assert f"-m {MODULES[name]} " in service["ExecStart"]
    assert (service["User"], service["Restart"], service["StandardOutput"]) == ("grass", "always", "journal")


PARENTS = ("shepherd", "node-api-server")
"""Of tasks, and of commands beside tasks: their children inherit what the unit sets."""


@pytest.mark.parametrize("name", [REDIS, TASK_REDIS, *(name for name in MODULES if name not in PARENTS)])
def test_all_but_the_parents_of_users_programs_are_confined(name: str) -> None:
    service = sections(UNITS / f"grass-{name}@.service")["Service"]
    for directive, value in {"NoNewPrivileges": "true", "ProtectSystem": "strict", "CapabilityBoundingSet": ""}.items():
        assert service[directive] == value
    assert "MemoryMax" in service


@pytest.mark.parametrize("name", PARENTS)
def test_users_programs_inherit_no_limit_and_no_sandbox(name: str) -> None:
    service = sections(UNITS / f"grass-{name}@.service")["Service"]
    assert (service["UMask"], service["TasksMax"], service["OOMPolicy"]) == ("0022", "infinity", "continue")
    confining = re.compile("Memory|OOMScore|NoNew|Protect|Private|Restrict|SystemCall|Lock|Capability|ReadWrite")
    assert not [key for key in service if confining.match(key)]


def test_tasks_survive_the_end_of_their_parent() -> None:
    assert sections(UNITS / "grass-shepherd@.service")["Service"]["KillMode"] == "process"


@pytest.mark.parametrize("name", [*PARENTS, "node-agent"])
def test_units_that_need_gpus_get_no_list_of_allowed_devices(name: str) -> None:
    # ProtectClock brings DeviceAllow=char-rtc, and any DeviceAllow closes all other devices
    service = sections(UNITS / f"grass-{name}@.service")["Service"]
    assert not {"PrivateDevices", "ProtectClock", "DeviceAllow", "DevicePolicy"} & set(service)


def systemd_analyze() -> str:
    found = shutil.which("systemd-analyze")
    require(found is not None, "systemd-analyze", "Debian's systemd has it")
    return str(found)


def exposure(unit: Path) -> float:
    analyze = systemd_analyze()
    command = [analyze, "security", "--offline=true", "--no-pager", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    found = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
    assert found is not None, done.stderr
    return float(found[1])


EXPOSED = dict(re.findall(r"^\| `grass-([a-z-]+)@` \| ([0-9.]+) \|", SECURITY.read_text(), re.MULTILINE))
"""Units that docs/security.md gives a reason for, and their exposure."""


def test_a_reason_is_given_for_units_that_there_are() -> None:
    assert {f"grass-{name}@.service" for name in EXPOSED} < {path.name for path in UNITS.glob("*.service")}
    assert 0 < len(EXPOSED) < 6


@pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda unit: unit.stem)
def test_a_unit_is_no_more_exposed_than_3_of_10_or_than_the_documentation_says(unit: Path) -> None:
    name = unit.stem.removeprefix("grass-").removesuffix("@")
    assert exposure(unit) <= float(EXPOSED.get(name, 3.0))


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = systemd_analyze()
    instances = []
    for unit in [*UNITS.glob("*.service"), *UNITS.glob("*.target"), *UNITS.glob("*.path")]:
        target = tmp_path / unit.name
        shutil.copy(unit, target)
        instances.append(str(tmp_path / re.sub("@", "@lab", unit.name)))
    done = subprocess.run([analyze, "verify", *instances], capture_output=True, text=True, timeout=50, check=False)
    told = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "grass" in line]
    assert (done.returncode, told) == (0, [])


@pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda unit: unit.stem)
def test_an_end_that_nobody_asked_for_is_noted(unit: Path, tmp_path: Path) -> None:
    if unit.name == "grass-share-cifs@.service":
        return  # a mount by the kernel has no daemon
    text = unit.read_text()
    [line] = re.findall(r"^ExecStopPost=-/bin/sh -c '(.*SERVICE_RESULT.*)'$", text, re.MULTILINE)
    as_grass = "setpriv --reuid=grass --regid=grass --clear-groups"
    assert as_grass in line
    command = line.replace("%%", "%").replace(as_grass, "env")
    files = {"CLUSTER_JSON": f"{tmp_path}/cluster.json", "SHARE_CACHE": f"{tmp_path}/share-cache"}
    for result, status in (("success", "0"), ("signal", "KILL"), ("exit-code", "70"), ("watchdog", "ABRT")):
        of_systemd = {"SERVICE_RESULT": result, "EXIT_STATUS": status}
        subprocess.run(["sh", "-c", command], env={"PATH": os.environ["PATH"], **files, **of_systemd}, check=True)
    said = [sentence(end).partition(": ")[2] for _, end in noted_by_systemd(tmp_path)]
    assert said == [
        "ended by signal SIGKILL; it is started again",
        "ended by itself, exit code 70; it is started again",
        "killed, because it gave no sign of life; it is started again",
    ]
    name = unit.stem.removeprefix("grass-").removesuffix("@")
    assert next(noted_by_systemd(tmp_path))[1].daemon == {"share-fuse": "share", "fluentd-container": "fluentd"}.get(
        name, name
    )
