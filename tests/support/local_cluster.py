"""A real local cluster in its own GRASS_HOME."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from grass.api.client import Client
from grass.api.keyring import Profile, Role, save_profile
from grass.api.user_files import register_user
from grass.config import ClusterConfig
from grass.errors import ConflictError
from grass.manifest.local_settings import LocalSettings
from grass.model.daemons import DaemonState
from grass.provision import layout, local
from grass.provision.local import LocalProvisioner
from grass.provision.provisioner import Session
from grass.provision.readiness import NotReadyError
from grass.supervision import processes
from tests.support.rsa_keys import public_jwk, write_key
from tests.support.waiting import wait_until

_PAIRS = cycle(range(3))
"""Clusters that are there together have different keys."""


def daemon_states(name: str, home: Path) -> Sequence[DaemonState]:
    """What `grass status` shows of the cluster's daemons."""
    return LocalProvisioner(Session(name, home, lambda _: None)).status().daemons


@dataclass
class LocalCluster:
    """A cluster made by ``create``. ``end`` deletes the cluster and its GRASS_HOME, whatever a test did.

    ``kept_keys``: take RSA pairs of ``rsa_keys``, which costs nothing. Without it, `create` makes the keys, as a user's
    does, and finds no folder of the cluster when it begins.
    """

    settings: LocalSettings = field(default_factory=LocalSettings)
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="grass-test-", dir="/tmp")))
    kept_keys: bool = True
    config: ClusterConfig = field(init=False)

    def create(self) -> ClusterConfig:
        if self.kept_keys and not self._folder.exists():
            self._write_keys()
        try:
            self.config = local.create(self.settings, home=self.home, progress=lambda _: None)
        except NotReadyError as error:
            for path in sorted((self._folder / "log").glob("*.log")):
                error.add_note(f"{path.name}: {path.read_text(errors='replace')[-2000:]}")
            raise
        return self.config

    @contextmanager
    def running(self) -> Iterator[LocalCluster]:
        """Create the cluster for the block, and end it."""
        try:
            self.create()
            yield self
        finally:
            self.end()

    def _write_keys(self) -> None:
        """Write what an interrupted `create` leaves that had made its keys: the next one goes on with them."""
        pair = next(_PAIRS)
        master, client, user = f"cluster-{pair}", f"cluster-user-{pair}", layout.user_name()
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        write_key(self._folder / "master" / "key.pem", master)
        write_key(self._folder / "client" / "user.pem", client)
        key = public_jwk(client)
        register_user(self._folder / "master", user, Role.ADMIN, key)
        profile = Profile(self.settings.name, "", user, key["kid"])  # `create` adds the URL
        save_profile(self._folder / "client", profile, public_jwk(master))

    @property
    def _folder(self) -> Path:
        return self.home / "clusters" / self.settings.name

    def delete(self) -> None:
        local.delete(self.settings.name, home=self.home, progress=lambda _: None)

    def end(self) -> None:
        if self._folder.exists():
            self.delete()
        if not list(self.home.glob("clusters/*")):  # another cluster in the same home removes the home
            shutil.rmtree(self.home, ignore_errors=True)

    def client(self) -> Client:
        """Return a client, which the caller closes."""
        return Client(self.settings.name, home=self.home)

    def stop_jobs(self) -> None:
        """Stop all active jobs, and wait for their end."""
        with self.client() as client:
            for job in client.jobs():
                with suppress(ConflictError):  # it has ended
                    client.stop(job.id, grace=0.0)
                client.wait(job.id, 30.0)

    def start_sleeper(self, marks: Path) -> int:
        """Start the job `sleeper`, whose task adds a line to ``marks`` at each start. Return the pid of the task."""
        with self.client() as client:
            command = f"echo run >> {marks}; exec sleep 600"
            client.start({"name": "sleeper", "components": {"t": {"command": command}}})
            wait_until(marks.exists, what="the start of the task")
            wait_until(lambda: client.tasks("sleeper")[0].state == "RUNNING", what="RUNNING")
            return int(client.tasks("sleeper")[0].pid)

    def states(self) -> dict[str, str]:
        return {entry.name: entry.state for entry in daemon_states(self.settings.name, self.home)}

    def pid(self, daemon: str) -> int | None:
        """Return the pid of supervisord or a daemon, while the process runs."""
        [entry] = [entry for entry in daemon_states(self.settings.name, self.home) if entry.name == daemon]
        return entry.pid if entry.state in ("RUNNING", "ORPHANED") else None

    def restart(self, daemon: str) -> None:
        """Kill a daemon, and wait until supervisord has started it again."""
        before = self.pid(daemon)
        assert before is not None
        os.killpg(os.getpgid(before), signal.SIGKILL)
        wait_until(lambda: self.pid(daemon) not in (None, before), 10, f"a new {daemon}")

    def pids(self) -> list[int]:
        """Return all processes: supervisord, daemons, tasks."""
        return [process.pid for process in processes.of_cluster(self.config)] + processes.tasks_of(self.config)
