"""The parts of scripts/lab that need neither root nor docker."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from grass.manifest import read_document
from grass.manifest.on_premises import Become, Login, OnPremisesSettings
from grass.manifest.settings import parse_settings
from scripts.labkit import packages
from scripts.labkit.cluster_file import cluster_file
from scripts.labkit.command import LabError, attempt, run
from scripts.labkit.engine import Engine
from scripts.labkit.host import Host
from scripts.labkit.keys import Keys
from scripts.labkit.lab import Lab, lab_home
from scripts.labkit.network import CANDIDATES, Network
from tests.support.needs import require

ROOT = Path(__file__).parents[2]


def test_an_ordinary_user_is_told_what_the_lab_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"needs root .* `sudo scripts/lab …`"):
        packages.require_root()


def test_the_lab_runs_on_the_standard_library_alone() -> None:
    done = subprocess.run(
        [
            "python3",
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); import labkit.__main__",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_state_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRASS_LAB_HOME", str(tmp_path / "here"))
    assert lab_home() == tmp_path / "here"
    monkeypatch.delenv("GRASS_LAB_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert lab_home() == tmp_path / ".cache" / "grass-lab"


@pytest.mark.parametrize("name", ["", "Lab", "1a", "a b", "a/b", "../x", "x" * 40])
def test_a_name_that_could_not_be_a_folder_or_a_container_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is not a name for a lab"):
        Lab(name, tmp_path)


def test_addresses_are_fixed_by_the_number_of_the_host() -> None:
    net = Network("lab", ipaddress.IPv4Network("10.213.4.0/24"))
    assert [net.address(index) for index in (0, 1, 64)] == ["10.213.4.10", "10.213.4.11", "10.213.4.74"]
    assert all(not one.overlaps(other) for one in CANDIDATES for other in CANDIDATES if one is not other)


def test_a_host_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    lab = Lab("lab", tmp_path)
    with pytest.raises(LabError, match="the lab 'lab' has no host 'n1'; it has: none"):
        lab.host("n1")
    lab.folder.mkdir(parents=True)
    entry = {"address": "10.213.0.10", "variant": "full"}
    (lab.folder / "lab.json").write_text(json.dumps({"password": "x", "hosts": {"master": entry}}))
    assert lab.host("master") == lab.host("lab-master") == Host("master", "10.213.0.10", "full", "lab-master", "lab")


def test_the_engine_of_somebody_else_is_never_taken_for_ours(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    assert engine.own_pid() is None and engine.stop() is False
    own = {"pid": os.getpid(), "started": "1"}  # the number was given to another process since
    (tmp_path / "engine.json").write_text(json.dumps(own))
    assert engine.own_pid() is None and engine.stop() is False


def test_a_command_that_fails_says_which_and_what_it_wrote() -> None:
    with pytest.raises(LabError, match=r"`sh -c 'echo because >&2; exit 3'` failed with exit code 3:\nbecause"):
        run(["sh", "-c", "echo because >&2; exit 3"])
    with pytest.raises(LabError, match="did not end within"):
        attempt(["sleep", "10"], seconds=0.05)
    with pytest.raises(LabError, match="there is no command 'no-such-command'"):
        attempt(["no-such-command"])


def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    require(shutil.which("ssh") is not None, "openssh-client")
    keys = Keys(tmp_path)
    keys.create("a lab")
    made = keys.private.read_text()
    keys.create("a lab")
    assert keys.private.read_text() == made
    assert keys.private.stat().st_mode & 0o777 == 0o600
    keys.write([("n1", "10.213.0.11", "ssh-ed25519 AAAA")])
    assert keys.known_hosts.read_text() == "n1,10.213.0.11 ssh-ed25519 AAAA\n"
    shown = run(["ssh", "-G", "-F", str(keys.config), "n1"]).splitlines()
    assert {"hostname 10.213.0.11", "user root", "stricthostkeychecking true"} <= set(shown)


def test_grass_reads_the_cluster_file() -> None:
    hosts = [Host(name, f"10.213.0.{10 + index}", "full", "", "") for index, name in enumerate(("master", "n1", "n2"))]
    text = cluster_file("lab", hosts[0], hosts[1:], Path("/state/key"))
    settings = parse_settings(read_document(text, source="cluster.yml"))
    assert isinstance(settings, OnPremisesSettings) and settings.name == "lab" and settings.warnings == ()
    found = [settings.master, *(node.host for node in settings.nodes)]
    assert [(host.name, host.address) for host in found] == [(host.name, host.address) for host in hosts]
    assert {host.login for host in found} == {Login("ops", key="/state/key", become=Become.SUDO)}
