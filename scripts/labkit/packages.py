"""What the lab needs of the machine, from Debian's packages; installed only when it is missing."""

from __future__ import annotations

import os
import shutil

from .command import LabError, run, say

NEEDED = {  # a program → the package that brings it
    "dockerd": "docker.io",
    "docker": "docker.io",
    "iptables": "iptables",
    "ip": "iproute2",
    "debootstrap": "debootstrap",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}


def require_root() -> None:
    """LabError for an ordinary user, in a line that says what is needed."""
    if os.geteuid() != 0:
        raise LabError("the lab needs root (for docker, bridges and debootstrap): run it as `sudo scripts/lab …`")


def install_missing() -> None:
    """Every program of NEEDED is there afterwards."""
    missing = sorted({package for program, package in NEEDED.items() if shutil.which(program) is None})
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise LabError(f"missing: {', '.join(missing)}; there is no apt-get here, install them and run this again")
    say(f"installing {', '.join(missing)} (Debian packages)")
    run(["apt-get", "update", "-qq"], seconds=300)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    run(command, seconds=600, environment={"DEBIAN_FRONTEND": "noninteractive"})
