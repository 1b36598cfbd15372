"""Commands that launchers run in tasks of this node through ``ssh``: a file for each, in the node's runtime folder.

The node-api-server runs the commands and writes the files. The node-agent reads them, because a task that runs such a
command is in use, and the command uses the task's share of the node. It also ends commands whose server was killed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from grass.config import ClusterConfig
from grass.errors import UndecodableError
from grass.system.atomic_file import replace_file
from grass.wire.codec import Form, encode
from node.runtime import proc


class TaskCommand(msgspec.Struct, frozen=True):
    """One command that runs in a task.

    ``key``: of the attempt. ``server``: pid of the program that runs the command.
    """

    key: str
    server: int
    pid: int | None
    """Its first process, which leads a session. None: it is in a container, like all that it starts."""
    start: float
    """Start of that process, so that a later one with the same pid is not taken for it."""
    served_since: float = 0.0
    """Start of the server, for the same reason."""

    @property
    def served(self) -> bool:
        """Return whether its server is there."""
        server = proc.stat(self.server)
        return server is not None and server.start == self.served_since


_FORM: Form[TaskCommand] = Form(TaskCommand)


def note(config: ClusterConfig, name: str, key: str, pid: int | None) -> None:
    """Write the file of a command that this process has started. On a full disk, the command runs unnoticed."""
    stat, own = None if pid is None else proc.stat(pid), proc.stat(os.getpid())
    file = _folder(config) / name
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, exist_ok=True)
        noted = TaskCommand(key, os.getpid(), pid, stat.start if stat else 0.0, own.start if own else 0.0)
        replace_file(file, encode(noted))


def drop(config: ClusterConfig, name: str) -> None:
    """Remove the file of a command that has ended."""
    with suppress(FileNotFoundError):
        (_folder(config) / name).unlink()


def running(config: ClusterConfig) -> list[TaskCommand]:
    """Return the commands that run."""
    return [command for _, command in _noted(config) if command.served]


def pids(config: ClusterConfig) -> dict[str, list[int]]:
    """Return the first processes of the commands that run on this machine, by attempt."""
    found: dict[str, list[int]] = {}
    for command in running(config):
        if command.pid is not None:
            found.setdefault(command.key, []).append(command.pid)
    return found


def end_abandoned(config: ClusterConfig) -> None:
    """Kill the commands whose server is gone: nobody reads their output, and their launcher gets no answer."""
    for name, command in list(_noted(config)):
        if not command.served:
            leader = None if command.pid is None else proc.stat(command.pid)
            if command.pid is not None and (leader is None or leader.start == command.start):
                proc.kill_session(command.pid)
            drop(config, name)


def _noted(config: ClusterConfig) -> Iterator[tuple[str, TaskCommand]]:
    with suppress(FileNotFoundError), os.scandir(_folder(config)) as entries:
        for entry in entries:
            with suppress(OSError, UndecodableError):  # it has just ended
                yield entry.name, _FORM.decode(Path(entry.path).read_bytes())


def _folder(config: ClusterConfig) -> Path:
    return Path(config.runtime_dir) / "commands"
