"""The Debian packages that the lab needs on this machine. Only missing packages are installed."""

from __future__ import annotations

import os
import shutil

from .command import LabError, run, say

NEEDED = {  # a program → the package that contains the program
    "dockerd": "docker.io",
    "docker": "docker.io",
    "iptables": "iptables",
    "ip": "iproute2",
    "debootstrap": "debootstrap",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}


def require_root() -> None:
    """Raise LabError for an ordinary user, with the reason in one line."""
    if os.geteuid() != 0:
        raise LabError("the lab needs root (for docker, bridges and debootstrap): run it as `sudo scripts/lab …`")


def install_missing() -> None:
    """Install the missing programs of NEEDED."""
    missing = sorted({package for program, package in NEEDED.items() if shutil.which(program) is None})
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise LabError(f"missing: {', '.join(missing)}; there is no apt-get here, install them and run this again")
    say(f"installing {', '.join(missing)} (Debian packages)")
    run(["apt-get", "update", "-qq"], seconds=300)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    run(command, seconds=600, environment={"DEBIAN_FRONTEND": "noninteractive"})
