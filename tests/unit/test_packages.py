"""Packages that Grass installs: what they bring is noted and stopped, and services of the host's owner are left alone.

`apt-get`, `dpkg-query` and `systemctl` are small programs here. They keep packages, units and enabled units as files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.hosts import LocalHost
from grass.provision.on_premises.packages import install_step, remove_step, would_install
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import StepFailedError, run_steps
from tests.support.needs import require_root

PROGRAMS = {
    "apt-get": """case "$*" in
*--simulate*) [ "$1" = remove ] || echo "Inst samba (2:4.17 Debian [amd64])" ;;
update*) exit 1 ;;
remove*) shift 4; for package; do rm "$HOST/packages/$package"; done ;;
*) touch "$HOST/packages/samba"; echo samba > "$HOST/units/smbd.service"; touch "$HOST/enabled/smbd.service"
   [ ! -e "$HOST/breaks" ] || exit 100 ;;
esac""",
    "dpkg-query": """case "$1" in
-S) unit=$HOST/units/${2##*/}; [ ! -e "$unit" ] || echo "$(cat "$unit"): $unit" ;;
*) for package; do [ ! -e "$HOST/packages/$package" ] || echo "ii  $package"; done ;;
esac""",
    "systemctl": """for unit; do :; done
case "$1" in
cat) [ -e "$HOST/units/$unit" ] ;;
disable) rm -f "$HOST/enabled/$unit" ;;
is-enabled|is-active) [ -e "$HOST/enabled/$unit" ] ;;
esac""",
}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a redis of its owner, which runs, and the record of a cluster."""
    require_root()
    for name in ("bin", "packages", "units", "enabled"):
        (tmp_path / name).mkdir()
    for name, text in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    monkeypatch.setenv("HOST", str(tmp_path))
    (tmp_path / "units" / "redis-server.service").write_text("own\n")
    (tmp_path / "enabled" / "redis-server.service").touch()
    (tmp_path / "record.json").write_bytes(Made().text())
    return tmp_path


def install(host: Path) -> None:
    step = install_step(("samba",), "apt-get", str(host / "record.json"))
    run_steps(LocalHost("here"), [step], lambda _: None)


def enabled(host: Path) -> list[str]:
    return sorted(path.name for path in (host / "enabled").iterdir())


def record(host: Path) -> Made:
    return Made.parse((host / "record.json").read_text())


def test_a_service_of_the_owner_goes_on_while_that_of_a_new_package_is_stopped(host: Path) -> None:
    install(host)
    assert enabled(host) == ["redis-server.service"]
    assert record(host) == Made(packages=("samba",))


def test_what_an_interrupted_installation_started_is_stopped_by_the_next(host: Path) -> None:
    (host / "breaks").touch()
    with pytest.raises(StepFailedError):
        install(host)
    assert enabled(host) == ["redis-server.service", "smbd.service"]
    (host / "breaks").unlink()
    (host / "packages" / "samba").unlink()
    install(host)
    assert enabled(host) == ["redis-server.service"] and record(host).services == ()


def test_a_package_whose_service_the_owner_uses_since_then_stays(host: Path) -> None:
    install(host)
    (host / "packages" / "rclone").touch()
    (host / "enabled" / "smbd.service").touch()
    step = remove_step(("samba", "rclone"))
    assert step is not None
    run_steps(LocalHost("here"), [step], lambda _: None)
    assert [path.name for path in (host / "packages").iterdir()] == ["samba"]


def test_a_package_that_is_upgraded_along_is_not_taken_for_ours() -> None:
    said = (
        "Inst libwbclient0 [2:4.17.9] (2:4.17.12 Debian [amd64])\nInst samba (2:4.17.12 Debian [amd64])\nConf samba\n"
    )
    assert would_install(said) == ("samba",)
