"""A real fluentd, run with the configuration that Grass ships: ``deploy/fluentd/fluent.conf``, unchanged.

fluentd is not on PyPI, and Debian has no package of it. ``$GRASS_TEST_FLUENTD`` names an archive of the public release
(bin/ and lib/), by default beside the checkout. fluentd runs on Debian's Ruby, which ``scripts/test`` installs.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
from pathlib import Path

from grass.tls_files import TlsFiles
from tests.support.example_run import free_port
from tests.support.needs import require
from tests.support.waiting import wait_until

CHECKOUT = Path(__file__).parents[2]
ARCHIVE = CHECKOUT.parent / "shared" / "fluentd" / "fluentd-1.14.6.tar.xz"
CONFIGURATION = CHECKOUT / "deploy" / "fluentd" / "fluent.conf"


def unpacked(folder: Path) -> Path:
    """Return the folder with bin/ and lib/. Skip, or fail under GRASS_TEST_STRICT, if the archive is missing."""
    archive = Path(os.environ.get("GRASS_TEST_FLUENTD") or ARCHIVE)
    require(archive.exists(), "a real fluentd", f"{archive} is not there")
    require(shutil.which("ruby") is not None, "ruby", "Debian's ruby runs fluentd")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    [found] = folder.iterdir()
    return found


class Fluentd:
    """One fluentd. ``start`` and ``end`` may be repeated: input that is not written yet stays in ``folder``."""

    def __init__(self, release: Path, folder: Path, logs: Path, files: TlsFiles) -> None:
        self._release = release
        self._files = files
        self._folder = folder
        self._logs = logs
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        """Of the process, which leaves a socket there. Its path is short enough for a socket."""
        self.address = f"127.0.0.1:{self._port}"
        self.log = folder / "log"

    def start(self) -> None:
        program = ["ruby", "-I", str(self._release / "lib"), str(self._release / "bin" / "fluentd")]
        places = {"GRASS_LOGS": str(self._logs), "GRASS_BUFFERS": str(self._folder / "buffers")}
        places["GRASS_TLS"] = str(self._files.folder)
        self._temporary = tempfile.TemporaryDirectory(prefix="fluentd-")
        places["SERVERENGINE_SOCKETMANAGER_SOCK_DIR"] = self._temporary.name
        env = {**os.environ, **places, "GRASS_COLLECTOR_PORT": str(self._port)}
        command = [*program, "-c", str(CONFIGURATION), "--no-supervisor"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._listens, 30, "an answer of fluentd")

    def _listens(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def end(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
