"""A real registry of images on this machine (Debian's docker-registry), which wants a login."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt

from tests.support.needs import require
from tests.support.waiting import wait_until

USER, PASSWORD = "ann", "secret"
_CONFIG = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: lab, path: {folder}/htpasswd}}}}
"""


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Yield its HOST:PORT. An engine on this machine uses it without TLS."""
    require(shutil.which("docker-registry") is not None, "docker-registry", "Debian's package has it")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "htpasswd").write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")
    (folder / "registry.yml").write_text(_CONFIG.format(folder=folder, port=port))
    command = ["docker-registry", "serve", str(folder / "registry.yml")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            wait_until(lambda: _listens(port), 20, "a registry")
            yield f"127.0.0.1:{port}"
        finally:
            running.terminate()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
