"""The hosts of the end-to-end tests: a lab (``scripts/lab``) of a master and three nodes for each run of the tests.

Runs do not disturb one another: each run has its own lab, named after its process. The next run removes what a killed
run left behind. ``GRASS_LAB=NAME`` uses that lab instead, and keeps it: for quick repeats.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.labkit.command import Output, attempt
from scripts.labkit.host import Host
from scripts.labkit.lab import Lab, lab_home, labs

ROOT = Path(__file__).parents[2]
SESSION = "e2e-"


class SessionLab:
    """A lab's interface for tests. ``hosts``: by name (``master``, ``n1``…), each a ``scripts.labkit.host.Host``."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.name = lab.name
        self.key_file = lab.keys.private
        self.known_hosts = lab.keys.known_hosts
        self.ssh_config = lab.keys.config
        self.cluster_file = lab.cluster_file
        self.password = lab.password  # password of grass-admin
        self.task_image_tar = lab.images.task_tar("python")  # docker load brings lab-python:latest
        self.busybox_image_tar = lab.images.task_tar("busybox")  # lab-busybox:latest

    @property
    def hosts(self) -> dict[str, Host]:
        return self.lab.hosts

    def ssh(self, host: str, *argv: str, user: str = "root", text_in: str = "", seconds: float = 60.0) -> Output:
        """``ssh user@host argv…`` with the lab's key and pinned host keys."""
        command = ["ssh", "-F", str(self.ssh_config), f"{user}@{host}", *argv]
        return attempt(command, text_in=text_in, seconds=seconds)

    def load_image(self, host: str, tar: Path) -> None:
        """``docker load`` inside the host."""
        with tar.open("rb") as source:
            command = ["docker", "exec", "-i", self.hosts[host].container, "docker", "load", "--quiet"]
            subprocess.run(command, stdin=source, check=True, capture_output=True, timeout=120)

    def show_folder(self, host: str, source: Path, target: str) -> None:
        """Show a folder of this machine on a host, without a copy, until the host is reset."""
        self.hosts[host].sh(f"mkdir -p {target}")
        found = attempt(["docker", "inspect", "--format", "{{.State.Pid}}", self.hosts[host].container])
        program = Path(__file__).with_name("show_folder.py")
        command = [sys.executable, str(program), str(source), found.stdout.strip(), target]
        subprocess.run(command, check=True, timeout=60)

    def image_with(self, name: str, *requirements: str) -> Path:
        """Return a file for ``load_image``: the image ``NAME:latest``, Python with packages of PyPI.

        Made once, then kept.
        """
        return self.lab.task_image(name, requirements)

    def reset(self, host: str) -> None:
        """Make the host like new: another disk, another host key, the same name and address. Takes two seconds."""
        self.lab.reset(host)

    def renew(self, *names: str) -> None:
        """Reset those of the hosts on which something of Grass is installed."""
        for name in names:
            if self.hosts[name].attempt("test", "-e", "/opt/grass").code == 0:
                self.reset(name)

    def make_whole(self) -> None:
        """Run every host and give it its network, whatever a test did."""
        for host in self.hosts.values():
            host.resume()
            if host.state() != "running":
                host.start()
            if host.is_cut():
                host.heal()
                host.wait_booted()


@contextmanager
def session_lab(nodes: int = 3) -> Iterator[SessionLab]:
    """Yield the hosts, until the end of the block. Raise LabError if they cannot be made."""
    wanted = os.environ.get("GRASS_LAB", "")
    if wanted:
        lab = Lab(wanted)
        lab.up(nodes)
        yield SessionLab(lab)
        return
    _remove_abandoned()
    lab = Lab(f"{SESSION}{os.getpid()}")
    lab.folder.mkdir(parents=True, exist_ok=True)
    with _claim(lab.folder).open("w") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        try:
            lab.up(nodes)
            yield SessionLab(lab)
        finally:
            lab.down()


def _claim(folder: Path) -> Path:
    """Lock the folder. The run that the lab belongs to holds the lock while the run lives."""
    return folder / "session"


def _remove_abandoned() -> None:
    """Remove labs ``e2e-PID`` and ``e2e-PID-…`` of runs that have ended."""
    for name in labs(lab_home()):
        owner = re.match(SESSION + r"\d+", name)
        if owner and not _is_claimed(lab_home() / "labs" / owner[0]):
            Lab(name).build()  # starts the engine, which the removal needs
            Lab(name).down()


def _is_claimed(folder: Path) -> bool:
    try:
        with _claim(folder).open() as claim:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
