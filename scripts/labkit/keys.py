"""The SSH side of a lab: one key pair, the pinned host keys, and a configuration for ``ssh -F``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .command import run


class Keys:
    """SSH files of a lab. ``folder``: the lab's state folder (0700)."""

    def __init__(self, folder: Path) -> None:
        self.private = folder / "id_ed25519"
        self.public = folder / "id_ed25519.pub"
        self.known_hosts = folder / "known_hosts"
        self.config = folder / "ssh_config"

    def create(self, comment: str) -> None:
        """Make the key pair if it is missing."""
        if self.private.exists() and self.public.exists():
            return
        self.private.unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(self.private)])

    def write(self, hosts: Iterable[tuple[str, str, str]]) -> None:
        """Write the host keys and the configuration. ``hosts``: (name, address, public host key).

        Files are written by rename, so that a reader sees the old file or the new one.
        """
        rows = list(hosts)
        _replace(self.known_hosts, "".join(f"{name},{address} {key}\n" for name, address, key in rows))
        _replace(self.config, "".join(_entry(name, address) for name, address, _ in rows) + self._options())

    def _options(self) -> str:
        return (
            "Host *\n"
            "  User root\n"
            f"  IdentityFile {self.private}\n"
            "  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n"
            "  StrictHostKeyChecking yes\n"
            "  ConnectTimeout 10\n"
            "  LogLevel ERROR\n"
        )


def _entry(name: str, address: str) -> str:
    return f"Host {name} {address}\n  HostName {address}\n  HostKeyAlias {address}\n\n"


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.chmod(0o600)
    partial.replace(path)
