"""Machines of another system than the master's, and machines on which a package manager has to install something.

What needs a lab of its own is for the night (``--long``): the images of other releases take minutes to make.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from grass.api.client import Client
from grass.provision.on_premises import requirements
from grass.provision.on_premises.bundle import make_bundle
from grass.provision.on_premises.requirements import Target
from scripts.labkit.lab import Lab, lab_home
from tests.support.lab import ROOT, SessionLab
from tests.support.on_premises import Cluster, holds, settings

DIGITS = ROOT / "examples" / "digits"
TARGET = 0.9
REFUSED = 2
HOSTS = {"master": "minimal", "n1": "trixie", "n2": "bullseye", "n3": "minimal"}
OWN_SERVICE = """
unit=/etc/systemd/system/redis-server.service
printf '[Service]\\nExecStart=sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' > $unit
systemctl enable --now redis-server.service
"""
_NOT_OURS = re.compile(r"/var/lib/(apt|containerd|ucf)/|/etc/(docker|cni)\b|(docker|sambashare):x:")
"""What a package manager keeps for itself, what an engine that ran leaves behind, and groups, which Debian keeps."""


@contextmanager
def another_lab(
    beside: SessionLab, letter: str, variants: dict[str, str], *, offline: bool = False
) -> Iterator[SessionLab]:
    """Hosts of these variants, for as long as the block lasts."""
    lab = Lab(f"{beside.name[:20]}-{letter}", beside.lab.home)
    try:
        lab.up(len(variants) - 1, variants, offline=offline)
        yield SessionLab(lab)
    finally:
        lab.down()


@pytest.fixture(scope="module")
def systems(running_lab: SessionLab) -> Iterator[SessionLab]:
    """A master and n3 that lack everything, n1 with Debian 13, n2 with Debian 11."""
    with another_lab(running_lab, "s", HOSTS) as lab:
        yield lab


def everything(lab: SessionLab, host: str) -> list[str]:
    """What is on a host, its packages included."""
    packages = lab.hosts[host].run("dpkg-query", "-W", "-f", "package ${binary:Package} ${db:Status-Abbrev}\n").stdout
    return [line for line in [*holds(lab, host), *sorted(packages.splitlines())] if not _NOT_OURS.match(line)]


def assert_as_before(lab: SessionLab, host: str, before: dict[str, list[str]]) -> None:
    now = everything(lab, host)
    assert {"more": sorted(set(now) - set(before[host])), "less": sorted(set(before[host]) - set(now))} == {
        "more": [],
        "less": [],
    }, host


def add(cluster: Cluster, host: str, *options: str) -> subprocess.CompletedProcess[str]:
    return cluster.grass("node", "add", f"ops@{cluster.lab.hosts[host].address}", *options, "-o", "json")


@pytest.mark.nightly  # containers of three nodes run on one release in test_work.py
def test_digits_are_learned_on_two_releases_of_debian_and_what_was_installed_for_it_goes_again(
    systems: SessionLab, site: Path, tmp_path: Path
) -> None:
    systems.hosts["n3"].sh(OWN_SERVICE)  # a service of its owner
    before = {host: everything(systems, host) for host in HOSTS}
    cluster = Cluster(systems, site, tmp_path / "home", settings(systems, name="systems"))
    what_may_not_be_installed_is_listed(cluster)
    assert_as_before(systems, "master", before)
    cluster.settings["install_node_runtime"] = True
    cluster.created()
    assert systems.hosts["master"].attempt("which", "smbd").code == 0

    too_old_a_python_is_refused(cluster)
    assert_as_before(systems, "n2", before)
    refused = add(cluster, "n3", "--no-install")
    assert refused.returncode == REFUSED and "missing: rclone, fuse3; and installing is forbidden" in refused.stderr
    assert_as_before(systems, "n3", before)

    for host, options in {"n1": (), "n3": ("--runtime", "process", "--runtime", "docker")}.items():
        done = add(cluster, host, *options)
        assert done.returncode == 0, done.stderr
        [view] = json.loads(done.stdout)
        assert (view["state"], set(view["runtimes"])) == ("READY", {"process", "docker"})
    versions = [systems.hosts[host].run("/opt/grass/venv/bin/python", "--version").stdout for host in ("n1", "n3")]
    assert [version.split(".")[1] for version in versions] == ["13", "11"]
    assert systems.hosts["n3"].attempt("systemctl", "is-active", "redis-server.service").code == 0
    digits_are_learned(cluster)

    gone = cluster.grass("delete", cluster.name, "--packages")
    assert gone.returncode == 0, gone.stderr
    for host in HOSTS:
        assert_as_before(systems, host, before)


def what_may_not_be_installed_is_listed(cluster: Cluster) -> None:
    cluster.settings["install_node_runtime"] = False
    refused = cluster.create()
    assert refused.returncode == REFUSED
    assert "smbd is missing (package samba), and may not be installed" in refused.stderr, refused.stderr


def too_old_a_python_is_refused(cluster: Cluster) -> None:
    refused = add(cluster, "n2")
    assert refused.returncode == REFUSED
    for words in ("n2 cannot become a node; nothing was changed", "no Python of 3.10 or newer (found: 3.9", "bullseye"):
        assert words in refused.stderr


def digits_are_learned(cluster: Cluster) -> None:
    pushed = cluster.grass("image", "push", "--file", str(cluster.lab.image_with("digits", "numpy", "scikit-learn")))
    assert pushed.returncode == 0, pushed.stderr
    sent = cluster.grass("data", "push", str(DIGITS), "digits")
    assert sent.returncode == 0, sent.stderr
    job = yaml.safe_load((DIGITS / "job-containers.yml").read_text())
    job["components"]["worker"]["replicas"] = 2  # one on each
    job["components"]["server"]["env"]["WORKERS"] = "2"
    with Client(cluster.name, home=cluster.home) as client:
        client.start(job)
        assert client.wait("digits", timeout=300).state == "SUCCEEDED"
        assert {task.node for task in client.tasks("digits", "worker")} == {"n1", "n3"}
        said = "\n".join(line.text for line in client.logs("digits"))
    found = re.search(r"test accuracy ([\d.]+)", said)
    assert found and float(found[1]) >= TARGET


@pytest.mark.nightly  # tests/unit/test_bundle_targets.py has the choice of wheels; this one fetches them
def test_nodes_with_another_processor_have_all_of_their_wheels_in_the_bundle(tmp_path: Path) -> None:
    """No such machine is at hand: what it would be brought is looked at."""
    master, node = Target("3.11", "x86_64", ("glibc", (2, 36))), Target("3.11", "aarch64", ("glibc", (2, 28)))
    made = make_bundle(master, lab_home() / "bundles", lambda _: None, machines=["aarch64"], pythons=["3.11"])
    assert node.kind in made.nodes and master.kind in made.nodes
    with tarfile.open(made.tar) as tar:
        contents = json.load(tar.extractfile("wheels.json") or io.BytesIO())["nodes"][node.kind]
        for name in contents:
            (tmp_path / name).write_bytes((tar.extractfile(name) or io.BytesIO()).read())
    tags = {name.rpartition("-")[2].removesuffix(".whl") for name in contents}
    assert all(tag == "any" or tag.endswith("aarch64") for tag in tags) and len(tags) > 1, tags
    needed = requirements.closure(requirements.meant(requirements.of_node(), node), tmp_path, node)
    names = {canonicalize_name(Requirement(line).name) for line in needed} - {"numpy", "supervisor", "setuptools"}
    assert names <= {canonicalize_name(name.partition("-")[0]) for name in contents}


@pytest.mark.nightly
def test_a_machine_that_cannot_get_what_it_lacks_says_so_and_stays_as_it_was(
    running_lab: SessionLab, site: Path, tmp_path: Path
) -> None:
    with another_lab(running_lab, "o", {"master": "minimal"}, offline=True) as lab:
        lab.ssh("master", "echo options timeout:1 attempts:1 >>/etc/resolv.conf")  # each name is waited for
        before = {"master": everything(lab, "master")}
        done = Cluster(lab, site, tmp_path / "home", settings(lab)).create()
        assert done.returncode == REFUSED
        for words in ("fetch samba", "missing: samba", "nothing was changed", "by hand"):
            assert words in done.stderr, done.stderr
        assert_as_before(lab, "master", before)
