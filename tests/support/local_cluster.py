"""A real local cluster in its own GRASS_HOME."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from grass.api.client import ApiClient
from grass.config import ClusterConfig
from grass.manifest.settings import Settings
from grass.provision import local, processes
from tests.support.waiting import wait_until


@dataclass
class LocalCluster:
    """A cluster made by ``create``. ``end`` deletes the cluster and its GRASS_HOME, whatever a test did."""

    settings: Settings = field(default_factory=Settings)
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="grass-test-", dir="/tmp")))
    config: ClusterConfig = field(init=False)

    def create(self) -> ClusterConfig:
        self.config = local.create(self.settings, home=self.home, progress=lambda _: None)
        return self.config

    @contextmanager
    def running(self) -> Iterator[LocalCluster]:
        """Create the cluster for the block, and end it."""
        try:
            self.create()
            yield self
        finally:
            self.end()

    def delete(self) -> None:
        local.delete(self.settings.name, home=self.home, progress=lambda _: None)

    def end(self) -> None:
        if (self.home / "clusters" / self.settings.name).exists():
            self.delete()
        if not list(self.home.glob("clusters/*")):  # another cluster in the same home removes the home
            shutil.rmtree(self.home, ignore_errors=True)

    def client(self) -> ApiClient:
        """Return a client, which the caller closes."""
        return ApiClient(self.settings.name, home=self.home)

    def start_sleeper(self, marks: Path) -> int:
        """Start the job `sleeper`, whose task adds a line to ``marks`` at each start. Return the pid of the task."""
        with self.client() as client:
            command = f"echo run >> {marks}; exec sleep 600"
            client.start({"name": "sleeper", "components": {"t": {"command": command}}})
            wait_until(marks.exists, what="the start of the task")
            wait_until(lambda: client.tasks("sleeper")[0]["state"] == "RUNNING", what="RUNNING")
            return int(client.tasks("sleeper")[0]["pid"])

    def states(self) -> dict[str, str]:
        return {entry.name: entry.state for entry in local.status(self.settings.name, self.home)}

    def pid(self, daemon: str) -> int | None:
        """Return the pid of supervisord or a daemon, while the process runs."""
        [entry] = [entry for entry in local.status(self.settings.name, self.home) if entry.name == daemon]
        return entry.pid if entry.state in ("RUNNING", "ORPHANED") else None

    def pids(self) -> list[int]:
        """Return all processes: supervisord, daemons, tasks."""
        return [process.pid for process in processes.of_cluster(self.config)] + processes.tasks_of(self.config)
