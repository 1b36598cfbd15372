"""A real sshd on a free port of this machine, with its own host key and authorized key."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import wait_until

_SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or ""


@dataclass(frozen=True)
class SshServer:
    """``key`` logs in as ``user``; ``known_hosts`` names the server's true key."""

    port: int
    user: str
    key: Path
    known_hosts: Path
    process: subprocess.Popen[bytes]


@contextmanager
def ssh_server(folder: Path, options: str = "", settings: str = "") -> Iterator[SshServer]:
    """Run sshd. ``options`` precede the key in authorized_keys; ``settings`` are further lines of sshd_config."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    authorized = folder / "authorized_keys"
    authorized.write_text(f"{options} {(folder / 'user.pub').read_text()}".lstrip())
    held = socket.socket()  # so that nothing else takes the port, until sshd ends; it reuses addresses, too
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    config = folder / "sshd_config"
    # SHLVL: Debian's bash reads the ~/.bashrc of whoever runs the tests for each command over SSH, unless it is a
    # shell in a shell. Such a file may start programs that cost more than the command.
    config.write_text(
        f"SetEnv SHLVL=1\n"
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {authorized}\nSubsystem sftp internal-sftp\n{settings}\n"
    )
    public = (folder / "host.pub").read_text().split()
    known = folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen([_SSHD, "-D", "-e", "-f", config], stdout=log, stderr=log)
    try:
        wait_until(lambda: _answers(port), what="sshd")
        yield SshServer(port, pwd.getpwuid(os.getuid()).pw_name, folder / "user", known, process)
    finally:
        process.terminate()
        process.wait()
        held.close()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
