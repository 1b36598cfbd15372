"""A container engine for tests (the machine's engine, behind a socket that tests can close), and the tests' image."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import select
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import docker
import psutil
import pytest

from grass.errors import GrassError
from grass.system.entropy import run_id
from node.runtime.docker.engine import SOCKET, Engine
from node.runtime.docker.streams import EngineStream
from tests.support.needs import missing, require, require_root
from tests.support.waiting import wait_until

IMAGE = "grass-test-busybox:3"
_BUSYBOX = Path("/bin/busybox")
_COMMANDS = ["sh", "sleep", "echo", "cat", "printf", "head", "tr", "id", "df", "rm", "ls", "touch", "mkdir", "dd"]
_COMMANDS += ["yes", "stty", "env", "nc", "true", "wget", "chown", "mount", "umount", "mknod"]


def answers(socket_path: str = SOCKET) -> bool:
    """Return whether an engine answers."""
    try:
        EngineStream(socket_path, "/_ping").close()
    except OSError:
        return False
    engine = Engine(socket_path)
    try:
        return bool(engine.facts())
    except GrassError:
        return False
    finally:
        engine.close()


def require_engine() -> None:
    """Skip, or fail under GRASS_TEST_STRICT, if no engine answers to this user."""
    if os.geteuid() != 0 and not os.access(SOCKET, os.W_OK):
        missing("root or the group docker", f"{SOCKET} is not this user's")
    require(answers(), "a container engine", f"none answers at {SOCKET}")
    require(_BUSYBOX.exists(), "busybox", "Debian's busybox-static makes the image of the tests")
    provide_image(SOCKET)


def require_bridge() -> None:
    """Skip if the engine has no bridge networks."""
    engine = Engine()
    try:
        if "bridge" not in str(engine.facts()["Plugins"]["Network"]):
            pytest.skip("needs an engine with bridge networks")
    finally:
        engine.close()


@functools.cache
def provide_image(engine: str) -> None:
    """Load the image into the engine at this socket, unless the engine has it."""
    client = docker.APIClient(base_url=f"unix://{engine}", version="auto")
    try:
        if not client.images(IMAGE):
            client.import_image_from_data(image_files(), *IMAGE.split(":"))
    finally:
        client.close()


def image_files() -> bytes:
    """Return a tar of the root file system: a static busybox, and writable folders."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for folder in ("bin", "tmp", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        tar.add(_BUSYBOX, "bin/busybox")
        for name in _COMMANDS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return packed.getvalue()


def cluster_name() -> str:
    """Return a name for labels: no two tests on this engine share a cluster name."""
    return run_id("test")


def remove_containers(cluster: str, socket_path: str = SOCKET, label: str | None = None) -> None:
    engine = Engine(socket_path)
    try:
        for container in engine.containers([label or f"grass.cluster={cluster}"]):
            engine.remove(container["Id"])
    finally:
        engine.close()


class Door:
    """A socket that leads to an engine's until it is shut: every connection breaks, and new ones are refused."""

    def __init__(self, engine: str = SOCKET) -> None:
        self._engine = engine
        self._folder = tempfile.mkdtemp(prefix="grass-door-")
        self.path = f"{self._folder}/docker.sock"
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._opened: socket.socket | None = None
        self.waits = False
        """Whether connections wait for an engine that is away, as at systemd's socket."""
        self.open()

    def open(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(64)
        with self._lock:
            self._opened = listener
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def shut(self) -> None:
        listener = self._opened
        assert listener is not None
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        os.unlink(self.path)
        with self._lock:
            self._opened = None
            for pair in self._pairs:
                for end in pair:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    def remove(self) -> None:
        self.shut()
        shutil.rmtree(self._folder)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            while engine.connect_ex(self._engine) and self.waits and self._opened is listener:
                time.sleep(0.05)
            try:
                engine.getpeername()
            except OSError:
                engine.close()
                client.close()
                continue
            with self._lock:
                let_in = self._opened is listener
                if let_in:
                    self._pairs.add((client, engine))
            if let_in:
                threading.Thread(target=self._pass, args=(client, engine), daemon=True).start()
            else:  # accepted just before the socket was shut
                client.close()
                engine.close()

    def _pass(self, client: socket.socket, engine: socket.socket) -> None:
        pair = (client, engine)
        other = {client: engine, engine: client}
        reading = [client, engine]
        with contextlib.suppress(OSError, ValueError):
            while reading:
                for end in select.select(reading, [], [])[0]:
                    data = end.recv(1 << 16)
                    if data:
                        other[end].sendall(data)
                    elif end is engine:
                        reading = []
                    else:
                        reading.remove(end)
                        other[end].shutdown(socket.SHUT_WR)
        with self._lock:
            self._pairs.discard(pair)
        client.close()
        engine.close()


class OwnEngine:
    """A separate dockerd, which a test may stop, kill and start again. Needs root."""

    def __init__(self, *, live_restore: bool) -> None:
        require_root()
        require(shutil.which("dockerd") is not None, "dockerd")
        self.folder = Path(tempfile.mkdtemp(prefix="grass-dockerd-"))
        self.socket = str(self.folder / "docker.sock")
        self._live_restore = live_restore
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OwnEngine:
        self.start()
        provide_image(self.socket)
        return self

    def start(self) -> None:
        for stale in ("pid", "exec/containerd/containerd.pid"):  # an unreaped zombie looks like a running process
            (self.folder / stale).unlink(missing_ok=True)
        # in a separate network namespace: a second dockerd would take the bridge of the first one
        command = [
            "unshare",
            "--net",
            "dockerd",
            "--host",
            f"unix://{self.socket}",
            "--bridge=none",
            "--iptables=false",
        ]
        for name, place in (("data-root", "data"), ("exec-root", "exec"), ("pidfile", "pid")):
            command += [f"--{name}", str(self.folder / place)]
        with (self.folder / "log").open("ab") as log:
            more = ["--iptables=false", *(["--live-restore"] if self._live_restore else [])]
            self._process = subprocess.Popen([*command, *more], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: answers(self.socket), 30, "an answer of dockerd")

    def end(self, *, kill: bool = False) -> None:
        assert self._process is not None
        (self._process.kill if kill else self._process.terminate)()
        self._process.wait(60)
        if kill:
            self._end_containerd()  # containerd ends with dockerd, but perhaps not at once

    def __exit__(self, *_: object) -> None:
        self.end()
        self._end_containerd()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted((each for each in mounts if each.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", place], check=False)
        shutil.rmtree(self.folder)

    def _end_containerd(self) -> None:
        """End a containerd that outlived a killed dockerd: it is no child of the next dockerd."""
        pidfile = self.folder / "exec" / "containerd" / "containerd.pid"
        with contextlib.suppress(OSError, ValueError, psutil.Error):
            process = psutil.Process(int(pidfile.read_text()))
            process.kill()
            process.wait(2)
