"""How this user reaches the machines of a cluster: read from the settings, saved in the cluster's client folder.

``client/machines.json`` holds address and login, never a password. ``client/known_hosts`` pins the machines' keys. A
cluster that has ``machines.json`` is one of several hosts.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

from grass.hosts import Ask, Become, Secret
from grass.hosts.ssh import KNOWN_HOSTS, SshAccess, SshHost, host_id
from grass.lines import whole_lines_of
from grass.manifest.on_premises import HostSettings, Login
from grass.provision.layout import user_name
from grass.system.environment import become_password, cluster_home, ssh_password
from grass.system.private_file import write_private
from grass.wire.codec import Form, indented

MACHINES = "machines.json"


@dataclass(frozen=True)
class Machines:
    """The master, the nodes that were added from here by name, and those of them that are namespaces of Kubernetes."""

    master: HostSettings
    nodes: dict[str, HostSettings] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()
    """Names of nodes whose agent runs on the master."""
    standby: HostSettings | None = None

    def save(self, client_dir: Path) -> None:
        """Save the machines, without passwords."""
        nodes = {name: kept(host) for name, host in self.nodes.items()}
        standby = kept(self.standby) if self.standby is not None else None
        saved = replace(self, master=kept(self.master), nodes=nodes, standby=standby)
        write_private(client_dir / MACHINES, indented(saved))


_MACHINES: Form[Machines] = Form(Machines)


def load_machines(cluster: str, home: Path | None = None) -> Machines | None:
    """Load the machines of a cluster. None: the cluster is on this machine."""
    try:
        return machines_in(cluster_home(cluster, home) / "client")
    except FileNotFoundError:
        return None


def machines_in(client_dir: Path) -> Machines:
    return _MACHINES.decode((client_dir / MACHINES).read_bytes())


def open_host(settings: HostSettings, client_dir: Path, ask: Ask | None = None) -> SshHost:
    """Open a host; the first command connects.

    The password comes from the settings, otherwise from the environment, otherwise from ``ask``.
    """
    login, through = settings.login, settings.through
    password = login.password or ssh_password()
    become = become_password() or password
    return SshHost(
        replace(
            _access(settings.address, login, password),
            through=_access(through.address, through.login, ssh_password()) if through is not None else None,
        ),
        client_dir / KNOWN_HOSTS,
        name=settings.name or settings.address,
        become=Become(login.become.value),
        password=Secret(become) if become else None,
        ask=ask,
    )


def _access(address: str, login: Login, password: str | None) -> SshAccess:
    return SshAccess(
        address, login.username or user_name(), login.port, login.key, Secret(password) if password else None
    )


def ssh_words(host: HostSettings, client_dir: Path) -> list[str]:
    """Return ``ssh`` and its arguments, with the pinned keys, to log in to a host."""
    words = _ssh(host.address, host.login, client_dir)
    if host.through is not None:
        between = _ssh(host.through.address, host.through.login, client_dir)
        words[1:1] = ["-o", f"ProxyCommand={shlex.join([*between[:-1], '-W', '[%h]:%p', between[-1]])}"]
    return words


def _ssh(address: str, login: Login, client_dir: Path) -> list[str]:
    words = ["ssh", "-p", str(login.port), "-o", f'UserKnownHostsFile="{client_dir / KNOWN_HOSTS}"']
    words += ["-o", "StrictHostKeyChecking=yes", "-o", "GlobalKnownHostsFile=/dev/null"]
    if login.key:
        words += ["-i", login.key]
    return [*words, f"{login.username}@{address}" if login.username else address]


def unpin(client_dir: Path, gone: HostSettings, left: Machines) -> None:
    """Forget the key of a machine that is no longer part of the cluster, unless another entry is the same machine."""
    host_key_id = host_id(gone.address, gone.login.port)
    if host_key_id in {host_id(host.address, host.login.port) for host in (left.master, *left.nodes.values())}:
        return
    pinned = client_dir / KNOWN_HOSTS
    try:
        lines = whole_lines_of(pinned.read_text())
    except FileNotFoundError:
        return
    write_private(pinned, "".join(line for line in lines if line.split(" ")[0] != host_key_id))


def kept(host: HostSettings) -> HostSettings:
    """Return ``host`` as it is saved: no password, and an explicit user and key path."""
    login = replace(host.login, username=host.login.username or user_name(), password=None)
    if login.key:
        login = replace(login, key=str(Path(login.key).expanduser().absolute()))
    return replace(host, login=login)
