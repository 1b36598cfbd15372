"""A real sshd that gives users their files, as the master of a cluster does: users, keys, the share, and its store."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grass.api import user_files
from grass.api.keyring import Role
from grass.api.user_files import UserRecord
from grass.config import ClusterConfig, FilesConfig, RedisConfig, Secrets
from grass.files.access import FilesAccess, SshShare
from grass.files.key import FILES_KEY, files_key
from grass.system.private_file import write_private
from grass.wire.codec import indented
from tests.support.sshd import SshServer, ssh_server


@dataclass(frozen=True)
class FilesServer:
    """``folder``: of everything. The administrator is ``root``."""

    folder: Path
    config: ClusterConfig
    running: SshServer

    @property
    def share(self) -> Path:
        return self.config.data_dir

    def user(self, name: str, role: Role = Role.USER) -> SshShare:
        """Register the user with a new files key, and return their access."""
        client = self.folder / f"client-{name}"
        record = UserRecord(name, role, files_key=files_key(client))
        self.write(record)
        return self.access(name)

    def write(self, record: UserRecord) -> None:
        write_private(self.config.master_dir / "users" / f"{record.user}.json", indented(record))
        user_files.accept_files_keys(self.config)

    def access(self, name: str) -> SshShare:
        key = str(self.folder / f"client-{name}" / FILES_KEY)
        running = self.running
        return SshShare(FilesAccess("127.0.0.1", running.port, running.user, key, str(running.known_hosts)))


@contextmanager
def files_server(
    folder: Path, name: str = "lab", redis: RedisConfig | None = None, secrets: Secrets | None = None
) -> Iterator[FilesServer]:
    """Run sshd. ``redis``, ``secrets``: of the store in which the owners of jobs are; only users need it."""
    home = folder / "cluster"
    (home / "master" / "users").mkdir(parents=True)
    (folder / "share").mkdir()
    with ssh_server(folder) as running:
        files = FilesConfig(
            "127.0.0.1", running.port, "", getpass.getuser(), str(folder / "authorized_keys"), sys.executable
        )
        config = ClusterConfig(
            name,
            "test",
            str(home),
            str(folder / "run"),
            redis=redis or RedisConfig(),
            share=str(folder / "share"),
            files=files,
        )
        config.save()
        (secrets or Secrets({}, "")).save(home)
        server = FilesServer(folder, config, running)
        server.user("root", Role.ADMIN)
        yield server
