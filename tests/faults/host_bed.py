"""A cluster with isolated users on the hosts of a lab: a master, and two nodes. n1 is harmed."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grass.api.client import Client
from scripts.labkit.command import docker
from tests.faults.bed import Bed
from tests.faults.spy import Spy
from tests.faults.table import HOSTS
from tests.support.lab import SessionLab, session_lab
from tests.support.on_premises import Cluster, install, settings

NAME, NODES, MARKS = "faults", ("n1", "n2"), "/mnt/marks"
CREATED_WITHIN = 900.0
IMAGE, IMAGE_MIB = "grass-faults-image", 80
"""So large that it is still being loaded when the fault comes."""


class HostBed(Bed):
    name, marks, python, image = HOSTS, MARKS, "/usr/bin/python3", f"{IMAGE}:latest"

    def __init__(self, cluster: Cluster, other: Client) -> None:
        self.cluster, self.lab = cluster, cluster.lab
        self.there = {"where": {"host": "n1"}}
        self.seat = {"cpu": 1.5}
        self.client = Client(NAME, home=cluster.home)
        self._other, self._number = other, 0

    def grass(self, *words: str) -> subprocess.Popen[str]:
        return self.cluster.start(*words)

    def lines_of(self, name: str) -> list[str]:
        found = [self.lab.hosts[node].attempt("cat", f"{MARKS}/{name}").stdout for node in NODES]
        return "".join(found).splitlines()

    def write(self, name: str) -> None:
        for node in NODES:
            self.lab.hosts[node].run("touch", f"{MARKS}/{name}")

    def is_up(self) -> bool:
        return {node.name: node.state for node in self.client.nodes()} == dict.fromkeys(NODES, "READY")

    def before(self, number: int) -> None:
        self._spy = Spy(self, self._other, number)
        self._spy.begin()

    def opened(self) -> list[str]:
        return self._spy.end()

    def forget_image(self) -> None:
        self.lab.hosts["n1"].attempt("docker", "rmi", "--force", self.image)


@contextmanager
def host_bed() -> Iterator[HostBed]:
    with session_lab(len(NODES)) as lab, tempfile.TemporaryDirectory(prefix="grass-faults-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "site").mkdir()
        site = install(folder / "site")
        nodes = [{"address": lab.hosts[node].address, "name": node, "labels": {"host": node}} for node in NODES]
        limits = {"silent_after": "5s", "lost_after": "150s"}
        cluster = Cluster(lab, site, folder / "home", settings(lab, name=NAME, isolation="user", nodes=nodes, **limits))
        done = cluster.grass("create", str(cluster.file()), seconds=CREATED_WITHIN)
        assert done.returncode == 0, done.stderr
        for node in NODES:
            lab.hosts[node].sh(f"mkdir -m 1777 -p {MARKS}; chmod 1777 {MARKS}")
        _push(cluster, _image(lab, folder))
        bed = HostBed(cluster, _second_user(cluster, folder))
        try:
            yield bed
        finally:
            bed.client.close()


def _second_user(cluster: Cluster, folder: Path) -> Client:
    added = cluster.grass("user", "add", "mallory", "-o", "json")
    assert added.returncode == 0, added.stderr
    theirs = Cluster(cluster.lab, cluster.site, folder / "other", cluster.settings)
    done = theirs.grass("login", json.loads(added.stdout)["invitation"])
    assert done.returncode == 0, done.stderr
    return Client(NAME, home=theirs.home)


def _image(lab: SessionLab, folder: Path) -> Path:
    """Return a file with an image of ``IMAGE_MIB``, made of the one with busybox."""
    context = folder / "image"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM lab-busybox:latest\nCOPY filler /filler\n")
    subprocess.run(f"head -c {IMAGE_MIB}M /dev/urandom > {context}/filler", shell=True, check=True)
    docker("load", "--quiet", "--input", str(lab.busybox_image_tar))
    environment = {"DOCKER_BUILDKIT": "0", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    subprocess.run(
        ["docker", "build", "-q", "-t", IMAGE, str(context)], env=environment, check=True, capture_output=True
    )
    docker("save", "--output", str(folder / "image.tar"), f"{IMAGE}:latest")
    docker("rmi", "--force", f"{IMAGE}:latest")
    return folder / "image.tar"


def _push(cluster: Cluster, file: Path) -> None:
    done = cluster.grass("image", "push", "--file", str(file))
    assert done.returncode == 0, done.stderr
