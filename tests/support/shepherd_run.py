"""A real shepherd in its own folder, and a client that waits for events."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from grass.config import RedisConfig
from grass.model.isolation import UidRange
from grass.node_config import NodeConfig, NodeHome
from node.runtime import proc
from node.runtime.attempts import Folders
from node.runtime.process.client import ProcessRuntime
from node.runtime.protocol import Launch, Listed, Observed, Start, Stop
from tests.support import own_group

ENV = {"PATH": os.environ.get("PATH", os.defpath)}

_OUTSIDE_OF_TMP = "/srv"
"""The view of an isolated task covers /tmp."""


def cluster_config(folder: Path, share: Path | None = None, **node: object) -> NodeHome:
    config = NodeHome(
        name="test",
        mode="local",
        home=str(folder),
        runtime_dir=str(folder),
        share=str(share) if share else None,
        redis=RedisConfig(socket=str(folder / "redis.sock")),
        node=NodeConfig(**node),  # type: ignore[arg-type]
    )
    config.save()
    return config


class ShepherdRun:
    """A shepherd. ``start_daemon`` acts as supervisord; leaving ends the shepherd and all its tasks.

    ``isolate``: it isolates users, with accounts in this range, as root. Its own files belong to ``nobody`` then.
    ``share``: another folder than its own, which has what a share has."""

    def __init__(self, isolate: UidRange | None = None, share: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="grass-", dir=_OUTSIDE_OF_TMP if isolate else None))
        self.config = cluster_config(self.folder, share, isolate=isolate)
        if isolate is not None:
            self.folder.chmod(0o711)
            for name in ("jobs", "data/shared") if share is None else ():
                (self.config.data_dir / name).mkdir(parents=True)
            (self.config.node_dir / "jobs").mkdir(parents=True)  # else the first container's runtime makes it, as root
            for path in (self.folder, *self.folder.rglob("*")):
                shutil.chown(path, "nobody", "nogroup")
        self.guard: subprocess.Popen[bytes] | None = None
        self.runtime = ProcessRuntime(self.config.socket("shepherd"))
        self.known: dict[str, Observed] = {}
        self.ends: dict[str, list[Observed]] = {}
        self.lists = 0
        self.log = (self.folder / "shepherd.log").open("ab")

    def __enter__(self) -> ShepherdRun:
        self.start_daemon()
        return self

    def __exit__(self, *_: object) -> None:
        if self.guard is None or self.guard.poll() is not None:
            self.start_daemon()
        try:
            self.wait(lambda: self.lists > 0)
            self.runtime.stop([Stop(key, 0.0) for key, seen in self.known.items() if seen.ended is None])
        finally:
            self.end_daemon()
            self.runtime.close()
            self.log.close()
        text = self.log_text()
        shutil.rmtree(self.folder)
        own_group.remove(self.folder.name)
        assert "Traceback" not in text, text

    def start_daemon(self) -> None:
        command = [sys.executable, "-m", "node.runtime.shepherd", str(self.config.path)]
        if self.config.node.isolate is not None:
            command = own_group.alone(command, self.folder.name)
        self.guard = subprocess.Popen(command, stderr=self.log, stdin=subprocess.DEVNULL)

    def end_daemon(self) -> None:
        assert self.guard is not None
        self.guard.send_signal(signal.SIGTERM)
        try:
            assert self.guard.wait(30) == 0
        except subprocess.TimeoutExpired:
            for pid in (self.guard.pid, *proc.children(self.guard.pid)):  # a hung one would hold up other tests
                os.kill(pid, signal.SIGKILL)
            raise

    def guard_pid(self) -> int:
        assert self.guard is not None
        return self.guard.pid

    def shepherd_pid(self) -> int:
        assert self.guard is not None
        guard = self.guard.pid
        lock = self.config.node_dir / "shepherd.lock"
        found: list[int] = []

        def lives() -> bool:
            found[:] = [pid for pid in proc.children(guard) if lock.exists() and lock.read_text() == str(pid)]
            stat = proc.stat(found[0]) if found else None
            return stat is not None and stat.state not in "ZX"

        self.wait(lives)
        return found[0]

    def kill_shepherd(self) -> None:
        pid = self.shepherd_pid()
        pidfd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        select.select([pidfd], [], [], 10)
        os.close(pidfd)

    def kill_guard(self) -> None:
        assert self.guard is not None
        self.guard.kill()
        self.guard.wait()

    def launch(
        self,
        name: str,
        argv: list[str],
        cwd: str | None = None,
        grace: float = 5.0,
        user: str = "",
        *,
        read_only_data: bool = False,
        cpu: int = 0,
        memory: int = 0,
        keep: int = 0,
        **env: str,
    ) -> None:
        launch = Launch(argv, {**ENV, **env}, cwd, grace, user=user, read_only_data=read_only_data)
        launch = launch._replace(cpu=cpu, memory=memory, keep=keep)
        self.runtime.define({name: launch})

    def start(self, launch: str, *keys: str, **env: str) -> None:
        self.runtime.start([Start(key, launch, env) for key in keys])

    def run(self, argv: list[str], key: str = "j-1/c.0/1", **options: object) -> Observed:
        """Start one attempt and wait for its end."""
        self.connect()
        self.launch(key, argv, **options)  # type: ignore[arg-type]
        self.start(key, key)
        return self.ended(key)

    def connect(self) -> None:
        self.wait(lambda: self.lists > 0)

    def ended(self, key: str, seconds: float = 20) -> Observed:
        self.wait(lambda: key in self.known and self.known[key].ended is not None, seconds)
        return self.known[key]

    def started(self, key: str) -> Observed:
        self.wait(lambda: key in self.known and self.known[key].pid is not None)
        return self.known[key]

    def relist(self) -> None:
        """Wait for the next list, which a new connection brings."""
        before = self.lists
        self.wait(lambda: self.lists > before)

    def wait(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s; known: {self.known}\n{self.log_text()}"
            select.select([self.runtime], [], [], 0.01)
            self.take()

    def take(self) -> None:
        for event in self.runtime.receive():
            if isinstance(event, Listed):
                self.lists += 1
                self.known = {attempt.key: attempt for attempt in event.attempts}
                for attempt in event.attempts:
                    self._seen(attempt)
            else:
                self.known[event.key] = event
                self._seen(event)

    def _seen(self, attempt: Observed) -> None:
        if attempt.ended is not None:
            self.ends.setdefault(attempt.key, []).append(attempt)

    def log_text(self) -> str:
        return (self.folder / "shepherd.log").read_text()

    def path(self, key: str, suffix: str) -> Path:
        return Path(Folders(str(self.config.node_dir / "attempts")).path(key, suffix))

    def stdout(self, key: str) -> str:
        return self.path(key, "stdout").read_text()
