"""What this machine knows of the masters that a cluster had: ``client/masters.json``.

A cluster may lose its master again before the one before that was fenced. So all of them are kept, until their units
are known to be disabled. Used by ``failover``, ``moving``, ``old_master`` and ``restore``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from grass.errors import UndecodableError
from grass.manifest.on_premises import HostSettings
from grass.provision.on_premises.machines import kept
from grass.system.private_file import write_private
from grass.wire.codec import Form, indented

_FILE = "masters.json"


@dataclass(frozen=True)
class Old:
    """A master that was replaced. ``redis``: host and port of its redis."""

    machine: HostSettings
    redis: str


@dataclass(frozen=True)
class Masters:
    """The masters of a cluster, but for what ``machines.json`` says of the present one.

    ``redis``: address of the redis of the master; empty: not known. ``old``: masters that may come back. ``term``: that
    of the last restore. ``moving``: address of the new master, while a move goes on. ``restoring``: the salt of the
    backup, while a restore goes on."""

    redis: str = ""
    old: tuple[Old, ...] = ()
    term: int = 0
    moving: str = ""
    restoring: str = ""

    def save(self, client_dir: Path) -> None:
        old = tuple(replace(each, machine=kept(each.machine)) for each in self.old)
        write_private(client_dir / _FILE, indented(replace(self, old=old)))

    def with_old(self, machine: HostSettings, redis: str) -> Masters:
        if any(each.machine.address == machine.address for each in self.old):
            return self  # noted by a call that was interrupted
        return replace(self, old=(*self.old, Old(machine, redis)))

    def without(self, address: str) -> Masters:
        return replace(self, old=tuple(each for each in self.old if each.machine.address != address))


_MASTERS: Form[Masters] = Form(Masters)


def load_masters(client_dir: Path) -> Masters:
    try:
        return _MASTERS.decode((client_dir / _FILE).read_bytes())
    except (FileNotFoundError, UndecodableError):
        return Masters()
