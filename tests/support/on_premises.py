"""A cluster on the hosts of a lab through the command line: settings, calls of `grass`, and the state of a host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from grass.provision.on_premises.own_wheel import write_wheel
from scripts.labkit.lab import lab_home
from tests.support.lab import SessionLab

_HOLDS = r"""
systemctl -q is-active docker.service && docker image ls --format 'image {{.Repository}}' grass-probe
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/tmp \
  -o -path /var/log -o -path /var/lib/docker -o -path /var/lib/containerd -o -path /opt/containerd -o -path /var/cache \
  -o -path /etc/cni -o -path /etc/docker/key.json \
  -o -path /var/lib/systemd -o -path /home -o -path /root -o -name __pycache__ \) -prune -o -printf '%p %y %m %u:%g\n'
ls -d /run/grass* 2>/dev/null
getent passwd; getent group
ss -H -l -t -n -p | awk '!/"containerd"/ {print "listens", $4}'
systemctl list-unit-files --no-legend | awk '$2 != "transient" {print "unit", $1, $2}'
grep -i grass /proc/self/mounts
find /root /home -path '*/rclone*' 2>/dev/null
true
"""


def install(folder: Path) -> Path:
    """Install a wheel of this Grass in ``folder``, which stays unchanged while the sources change."""
    name, content = write_wheel()
    (folder / name).write_bytes(content)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*command, str(folder / "site"), str(folder / name)], check=True, timeout=60)
    return folder / "site"


@dataclass
class Cluster:
    """A cluster. ``site``: of ``install``. ``settings`` is written to a file for each `create`."""

    lab: SessionLab
    site: Path
    home: Path
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.settings["name"])

    @property
    def client(self) -> Path:
        return self.home / "clusters" / self.name / "client"

    def file(self) -> Path:
        self.home.mkdir(parents=True, exist_ok=True)
        cache = lab_home() / "bundles"  # packages are fetched once, not for every test
        cache.mkdir(parents=True, exist_ok=True)
        if not (self.home / "cache").exists():
            (self.home / "cache").symlink_to(cache)
        path = self.home / f"{self.name}.yml"
        path.write_text(yaml.safe_dump(self.settings))
        return path

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        env = {**os.environ, "GRASS_HOME": str(self.home), "PYTHONPATH": str(self.site), **environment}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, str(self.site / "bin" / "grass"), *arguments],
            env=env,
            cwd="/",  # tasks start in the folder where `grass run` is called
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def grass(self, *arguments: str, seconds: float = 300, **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def good(self, *arguments: str) -> str:
        """Return what a command printed that must succeed."""
        done = self.grass(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.grass("create", str(self.file()), *options, **environment)

    def created(self) -> dict[str, Any]:
        done = self.create("-o", "json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def settings(lab: SessionLab, isolation: str | None = "none", **more: Any) -> dict[str, Any]:
    """Return settings of a cluster with a master and no nodes yet. ``isolation``: None leaves the default."""
    login = {"user": "ops", "key": str(lab.key_file)}
    master = {"hostname": "master", "address": lab.hosts["master"].address}
    if isolation is not None:
        more["isolation"] = isolation
    return {"mode": "grass/on-premises", "name": "e2e", "ssh": login, "become": "sudo", "master": master, **more}


@contextmanager
def with_a_node(
    lab: SessionLab, site: Path, home: Path, hosts: Sequence[str] = ("master", "n1", "n2"), **more: Any
) -> Iterator[Cluster]:
    """Yield a cluster of the master and the node n1. ``more``: settings. Afterwards ``hosts`` are as before the test,
    also one that was the master and is none that `delete` knows."""
    nodes = [{"name": "n1", "address": lab.hosts["n1"].address}]
    made = Cluster(lab, site, home, settings(lab, nodes=nodes, **more))
    made.created()
    try:
        yield made
    finally:
        lab.make_whole()
        made.grass("delete", made.name, "--force")
        for host in hosts:
            lab.reset(host)


def holds(lab: SessionLab, host: str = "master") -> list[str]:
    """List a host's files with owners and modes, users, units, listeners, mounts. Omits logs, caches and homes.

    Leaves out what the engine makes when it starts. One that never ran has no image, and is not started to be asked.
    """
    said = lab.ssh(host, "sh", "-s", text_in=_HOLDS)
    assert said.stdout, said
    return sorted(set(said.stdout.splitlines()))
