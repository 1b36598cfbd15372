"""A real redis (or valkey) on a unix socket, set up by Grass's own configuration and users."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from grass.errors import UnreachableError
from grass.store.embedded import Files, Server, node_user, write_files
from grass.store.redis_backend import RedisBackend
from grass.system.entropy import password
from tests.support.processes import ended
from tests.support.waiting import wait_until

USERS = ("admin", "agent", "api", "node")


@dataclass
class RedisServer:
    """A redis server. ``start``/``kill``/``stop`` may be repeated: the data is kept until ``remove``."""

    server: Server
    prefix: str = "grass:test:"
    node: str = "local"
    passwords: dict[str, str] = field(default_factory=lambda: {user: password() for user in USERS}, repr=False)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="grass-redis-", dir="/tmp"))  # short, as a socket path must be
        self.socket = self.folder / "redis.sock"
        self.log = self.folder / "log"
        self.files = self.write_files()

    def write_files(self) -> Files:
        return write_files(
            self.folder,
            server=self.server,
            socket=self.socket,
            prefix=self.prefix,
            node=self.node,
            passwords=self.passwords,
        )

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([self.server.path, self.files.conf], stdout=log, stderr=log)
        deadline = time.monotonic() + 10
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"redis did not start:\n{self.log.read_text()}")
            time.sleep(0.01)

    def _answers(self) -> bool:
        """Return whether redis serves. After a restart, redis listens before it has read its log."""
        backend = self.backend()
        try:
            backend.ping()
        except UnreachableError:
            return False
        finally:
            backend.close()
        return True

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)
            self.process = None

    def kill(self) -> None:
        """Kill the server, with the process that may be rewriting its log: nothing is written afterwards."""
        if self.process is not None:
            children: list[psutil.Process] = []
            with suppress(psutil.NoSuchProcess):  # it has ended by itself
                children = psutil.Process(self.process.pid).children()
            for each in (self.process, *children):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            self.process.wait(10)
            wait_until(lambda: all(map(ended, children)), what="the end of a rewrite")
            self.process = None

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def backend(self, user: str = "admin") -> RedisBackend:
        """Return a new backend as this user (``node``: the user of ``self.node``); the caller closes the backend."""
        name = self.login(user)
        return RedisBackend(unix_socket_path=str(self.socket), username=name, password=self.passwords[user])

    def login(self, user: str) -> str:
        return node_user(self.node) if user == "node" else user
