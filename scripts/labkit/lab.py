"""A lab: some hosts on their own network. The state folder stores the request; docker knows the actual state."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from . import network, packages
from .cluster_file import cluster_file
from .command import LabError, docker, say
from .engine import Engine
from .host import Host
from .images import VARIANTS, Images
from .keys import Keys

MASTER = "master"
MAX_NODES = 64


class Entry(TypedDict):
    """A host in lab.json; the host's name is the key."""

    address: str
    variant: str


class State(TypedDict):
    """Content of lab.json (0600)."""

    password: str
    hosts: dict[str, Entry]


def lab_home() -> Path:
    """Return the folder of the labs' state: $GRASS_LAB_HOME, or ~/.cache/grass-lab."""
    return Path(os.environ.get("GRASS_LAB_HOME") or Path.home() / ".cache" / "grass-lab").absolute()


class Lab:
    """The lab called ``name``. Labs of different names do not disturb each other."""

    def __init__(self, name: str = "lab", home: Path | None = None) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
            raise LabError(f"{name!r} is not a name for a lab: lower-case letters, digits and dashes, a letter first")
        self.name = name
        self.home = home or lab_home()
        self.folder = self.home / "labs" / name
        self.engine = Engine(self.home / "engine")
        self.images = Images(self.home / "images")
        self.keys = Keys(self.folder)
        self.cluster_file = self.folder / "cluster.yml"
        self._state_file = self.folder / "lab.json"

    # queries

    @property
    def password(self) -> str:
        """Password of grass-admin, on every host."""
        return self._state()["password"]

    @property
    def hosts(self) -> dict[str, Host]:
        """Return the hosts by name, the master first. Empty before ``up``."""
        return {
            name: Host(name, entry["address"], entry["variant"], f"{self.name}-{name}", self.name)
            for name, entry in self._state()["hosts"].items()
        }

    def host(self, name: str) -> Host:
        """Return a host by name: ``n1``, or ``lab-n1``."""
        found = self.hosts.get(name.removeprefix(f"{self.name}-"))
        if found is None:
            raise LabError(f"the lab {self.name!r} has no host {name!r}; it has: {', '.join(self.hosts) or 'none'}")
        return found

    # changes

    def build(self, variants: Iterable[str] = ()) -> None:
        """Make sure that packages, a running engine and all images exist, including images of ``variants``."""
        packages.require_root()
        with self._locked(self.home / "lock"):
            packages.install_missing()
            self.engine.start()
            self.images.build(variants)

    def task_image(self, name: str, requirements: Sequence[str]) -> Path:
        """Return a file for ``docker load`` with the image ``NAME:latest``: Python and these packages of PyPI."""
        self.build()
        with self._locked(self.home / "lock"):
            return self.images.task_tar_with(name, requirements)

    def up(self, nodes: int = 3, variants: Mapping[str, str] | None = None, *, offline: bool = False) -> None:
        """Create and start hosts until every host answers. Existing hosts stay, also hosts beyond ``nodes``.

        ``variants``: host → one of VARIANTS, for hosts that do not exist yet; the other hosts are ``full``.
        """
        names = [MASTER, *(f"n{number}" for number in range(1, nodes + 1))]
        _check(names, nodes, variants or {})
        self.build({*(variants or {}).values(), *(host.variant for host in self.hosts.values())})
        with self._locked(self.folder / "lock"):
            self.keys.create(f"grass lab {self.name}")
            net = network.find(self.name) or network.create(self.name, offline=offline)
            self._remember(net, names, variants or {})
            self._each(self._bring_up)
            self._write_files()

    def reset(self, name: str) -> None:
        """Make the host like new: another disk, another host key, the same name and address."""
        host = self.host(name)
        with self._locked(self.folder / "lock"):
            host.remove()
            self._bring_up(host)
            self._write_files()

    def down(self) -> None:
        """Remove every host, volume, network and file of the lab. Images stay."""
        packages.require_root()
        with self._locked(self.folder / "lock"):
            if self.engine.answers():
                self._remove_all()
            elif self.hosts:
                raise LabError("no docker engine answers, so hosts cannot be removed; `scripts/lab up` starts one")
            shutil.rmtree(self.folder)

    # steps

    def _remember(self, net: network.Network, names: list[str], variants: Mapping[str, str]) -> None:
        state = self._state()
        hosts = state["hosts"]
        state["password"] = state["password"] or secrets.token_urlsafe(9)
        for index, name in enumerate(names):
            variant = hosts[name]["variant"] if name in hosts else variants.get(name, "full")
            hosts[name] = {"address": net.address(index), "variant": variant}
        partial = self._state_file.with_suffix(".partial")
        partial.write_text(json.dumps(state, indent=1) + "\n")
        partial.chmod(0o600)
        partial.replace(self._state_file)

    def _bring_up(self, host: Host) -> None:
        image = self.images.host_image(host.variant)
        known = {other.name: other.address for other in self.hosts.values()}
        match host.state():
            case "absent":
                host.create(image, self.name, known)
            case "running":
                pass
            case "paused":
                host.resume()
            case "created":  # an `up` was interrupted before its first boot
                host.remove()
                host.create(image, self.name, known)
            case _:
                docker("start", host.container)
        host.heal()
        host.set_up(self.keys.public.read_text(), self.password, known)
        failed = host.wait_booted()
        if failed:
            say(f"{host.name} is degraded, failed units: {failed}")
        if host.image() != image:
            say(f"{host.name} was made from an older recipe; `scripts/lab reset {host.name}` makes it anew")

    def _write_files(self) -> None:
        hosts = list(self.hosts.values())
        self.keys.write((host.name, host.address, host.host_key()) for host in hosts)
        master, *nodes = hosts
        self.cluster_file.write_text(cluster_file(self.name, master, nodes, self.keys.private))

    def _each(self, action: Callable[[Host], None]) -> None:
        """Run ``action`` on all hosts at once. Raise the first error after all have ended."""
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(action, self.hosts.values()))

    def _remove_all(self) -> None:
        listed = docker("ps", "--all", "--quiet", "--filter", f"label=grass.lab={self.name}").split()
        if listed:
            docker("rm", "--force", "--volumes", *listed)
        net = network.find(self.name)
        if net is not None:
            net.remove()

    def _state(self) -> State:
        try:
            read: State = json.loads(self._state_file.read_text())
        except FileNotFoundError:
            return {"password": "", "hosts": {}}
        return read

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        """Lock the lab for one process at a time. Other processes wait, and then find the work done."""
        while True:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.home.chmod(0o700)
            with path.open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                # The `down` that we waited for may have removed the file: then lock the new file.
                if path.exists() and path.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                    yield
                    return


def _check(names: list[str], nodes: int, variants: Mapping[str, str]) -> None:
    if not 0 <= nodes <= MAX_NODES:
        raise LabError(f"a lab has 0 to {MAX_NODES} nodes besides its master, not {nodes}")
    for name, variant in variants.items():
        if name not in names:
            raise LabError(f"there is no host {name!r} to be {variant!r}; there are: {', '.join(names)}")
        if variant not in VARIANTS:
            raise LabError(f"{variant!r} is not a variant of a host; there are: {', '.join(VARIANTS)}")


def labs(home: Path) -> list[str]:
    """Return the names of the labs that have a state folder."""
    return sorted(path.parent.name for path in home.glob("labs/*/lab.json"))
