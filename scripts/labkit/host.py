"""One host of a lab: a container whose first process is systemd. Only this module knows how to run such a container."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .command import LabError, Output, attempt, docker, run, wait_until

ADMIN = "grass-admin"  # sudo with a password
OPERATOR = "ops"  # sudo without a password
BOOT_SECONDS = 60.0

_SET_UP = """set -eu
for home in /root /home/grass-admin /home/ops; do
    user=$(basename $home)
    install -d -m 0700 -o $user -g $user $home/.ssh
    printf '%s\\n' "$KEY" > $home/.ssh/authorized_keys
    chown $user:$user $home/.ssh/authorized_keys
    chmod 0600 $home/.ssh/authorized_keys
done
printf 'grass-admin:%s\\n' "$PASSWORD" | chpasswd
printf '%s\\n' "$HOSTS" | while read -r address name; do
    grep -q "[[:space:]]$name\\$" /etc/hosts || printf '%s\\t%s\\n' "$address" "$name" >> /etc/hosts
done
"""
_CLEAN = ("env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root")
_ENTER = ("nsenter", "--mount", "--uts", "--ipc", "--net", "--pid", "--target")
_INITS: dict[str, tuple[int, str]] = {}
"""Container → its first process and when that started, as last seen. Another start makes another process."""


@dataclass(frozen=True)
class Host:
    """A host. ``name``: used by the hosts; ``container``: docker's name. ``address`` never changes."""

    name: str
    address: str
    variant: str
    container: str
    network: str

    def exists(self) -> bool:
        return attempt(["docker", "container", "inspect", "--format", "{{.Id}}", self.container]).code == 0

    def create(self, image: str, lab: str, known: Mapping[str, str]) -> None:
        """Run the host. ``known``: name → address of all hosts of the lab, for /etc/hosts."""
        names = [f"--add-host={name}:{address}" for name, address in known.items() if name != self.name]
        docker(
            "run",
            "--detach",
            *("--name", self.container, "--hostname", self.name),
            *("--label", f"grass.lab={lab}", "--label", f"grass.lab.variant={self.variant}"),
            *("--network", self.network, "--ip", self.address, "--network-alias", self.name, *names),
            # A container cannot be --privileged where this machine itself lacks a capability.
            *("--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE"),
            *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
            *("--cgroupns=host", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw"),
            *("--device", "/dev/fuse", "--tmpfs", "/run", "--tmpfs", "/run/lock"),
            *("--volume", "/var/lib/docker"),  # overlay2 does not work on top of overlay2
            *("--env", "container=docker", "--stop-signal", "SIGRTMIN+3"),
            image,
        )

    def set_up(self, public_key: str, password: str, known: Mapping[str, str]) -> None:
        """Set the users' keys, the password and the names of hosts that were added later. May be repeated."""
        hosts = "\n".join(f"{address} {name}" for name, address in known.items() if name != self.name)
        given = {"KEY": public_key.strip(), "PASSWORD": password, "HOSTS": hosts}
        options = [word for key in given for word in ("--env", key)]
        run(["docker", "exec", "-i", *options, self.container, "sh", "-s"], text_in=_SET_UP, environment=given)

    def state(self) -> str:
        """Return docker's state, such as ``running``, ``exited`` or ``paused``; otherwise ``absent``."""
        found = attempt(["docker", "container", "inspect", "--format", "{{.State.Status}}", self.container])
        return found.stdout.strip() if found.code == 0 else "absent"

    def is_cut(self) -> bool:
        networks = json.loads(docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", self.container))
        return self.network not in networks

    def image(self) -> str:
        return docker("inspect", "--format", "{{.Config.Image}}", self.container)

    def wait_booted(self, seconds: float = BOOT_SECONDS) -> str:
        """Wait for the end of the boot. Return the names of failed units; empty: no unit failed."""
        booted = ("running", "degraded")
        wait_until(lambda: self._system("--wait") in booted, seconds, f"the end of the boot of {self.name}", 0.2)
        if not self.is_cut():
            wait_until(self._sshd_answers, seconds, f"an answer of sshd on {self.name} ({self.address})")
        if self._system() == "running":
            return ""
        return " ".join(self.sh("systemctl list-units --failed --plain --no-legend | cut -d' ' -f1").split())

    def host_key(self) -> str:
        """Return the public SSH host key (type and key), read inside the container: no network to trust."""
        return " ".join(self.run("cat", "/etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[:2])

    def attempt(self, *argv: str, text_in: str = "", seconds: float = 60.0) -> Output:
        """Run ``argv`` on the host as root, whatever the exit code.

        Works without the network, also on a cut-off host. It enters the host's namespaces directly: `docker exec` takes
        30 times the processor time, and tests ask a host again and again.
        """
        init = self._init()
        if not init:
            return Output(1, "", f"{self.container} does not run")
        return attempt([*_CLEAN, *_ENTER, str(init), *argv], text_in=text_in, seconds=seconds)

    def run(self, *argv: str, text_in: str = "", seconds: float = 60.0) -> Output:
        """Run ``argv`` like ``attempt``. Raise LabError with its output unless it exits with 0."""
        done = self.attempt(*argv, text_in=text_in, seconds=seconds)
        if done.code != 0:
            raise LabError(f"{self.name}: {argv} exited with {done.code}: {(done.stdout + done.stderr).strip()}")
        return done

    def sh(self, script: str, *, seconds: float = 60.0) -> str:
        """Return what a shell script wrote to stdout. Raise LabError unless the script exits with 0."""
        return self.run("sh", "-c", script, seconds=seconds).stdout

    def cut(self) -> None:
        """Disconnect the host's network, like pulling the cable. Do nothing without a network."""
        if not self.is_cut():
            docker("network", "disconnect", self.network, self.container)

    def heal(self) -> None:
        """Reconnect the network, with the same address."""
        if self.is_cut():
            docker("network", "connect", "--ip", self.address, "--alias", self.name, self.network, self.container)

    def kill(self) -> None:
        """Simulate power loss: all processes of the host end at once; disks stay."""
        if self.state() in ("running", "paused"):
            docker("kill", self.container)

    def start(self) -> None:
        """Power on, and wait for the end of the boot."""
        docker("start", self.container)
        self.wait_booted()

    def reboot(self) -> None:
        """Shut down in order, boot, and wait for the end of the boot."""
        docker("restart", "--time", "30", self.container)
        self.wait_booted()

    def hang(self) -> None:
        """Freeze every process of the host; the kernel still answers pings."""
        if self.state() == "running":
            docker("pause", self.container)

    def resume(self) -> None:
        """End a hang."""
        if self.state() == "paused":
            docker("unpause", self.container)

    def remove(self) -> None:
        """Remove the host and its disks. Do nothing if the host does not exist."""
        attempt(["docker", "rm", "--force", "--volumes", self.container])

    def _init(self) -> int:
        """Return the host's first process, as this machine numbers it; 0: the host does not run."""
        init, started = _INITS.get(self.container, (0, ""))
        if not init or _started(init) != started:
            found = attempt(["docker", "container", "inspect", "--format", "{{.State.Pid}}", self.container])
            init = int(found.stdout.strip() or 0)
            _INITS[self.container] = (init, _started(init))
        return init

    def _system(self, *options: str) -> str:
        """Return systemd's state. ``--wait``: at the end of the boot, but at once before systemd answers calls."""
        return self.attempt("systemctl", "is-system-running", *options).stdout.strip()

    def _sshd_answers(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=2) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False


def _started(pid: int) -> str:
    """Return when a process started, in ticks; empty: there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
