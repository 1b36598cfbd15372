"""`grass backup` of a cluster on several hosts: the master's machine seals the file, which comes to this machine.

Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from grass.errors import GrassError, NotFoundError
from grass.hosts import Done, Host
from grass.hosts.ssh import KNOWN_HOSTS
from grass.lines import lines_of
from grass.provision.backup.archive import drafted
from grass.provision.on_premises.backup_on_host import MADE, OF_CLIENT, BackUp
from grass.provision.on_premises.design import VENV
from grass.provision.on_premises.facts import gather
from grass.provision.on_premises.install import AS_GRASS
from grass.provision.on_premises.machines import MACHINES, Machines, open_host
from grass.provision.provisioner import Session
from grass.wire.backup import BackedUp, BackupHeader
from grass.wire.codec import encode

ON_HOST = (*AS_GRASS, f"{VENV}/bin/python", "-m", "grass.provision.on_premises.backup_on_host")
PATIENCE = 6 * 3600.0
"""Seconds for the logs and data of a large cluster over a slow link."""


class OnMasterError(GrassError):
    """The part on the master's machine failed. It has the exit code of the error there."""

    code = "on-master"


def back_up(
    session: Session, machines: Machines, target: Path, passphrase: str, parts: Sequence[str]
) -> tuple[BackupHeader, BackedUp]:
    """Write a backup to the new file ``target``. Raises NotFoundError: the machine is no master; OnMasterError; and
    what ``drafted`` and ``Host.run`` raise."""
    with open_host(machines.master, session.client_dir, session.ask) as host:
        facts = gather(host, session.name)
        if facts.config is None or not facts.config.redis.embedded:
            raise NotFoundError(f"{host.name}: is no master of a cluster {session.name}")
        known = {f"{OF_CLIENT}/{name}": session.client_dir / name for name in (MACHINES, KNOWN_HOSTS)}
        also = {name: path.read_text() for name, path in known.items() if path.exists()}
        asked = BackUp(str(facts.config.path), passphrase, tuple(parts), facts.server, also)
        with drafted(target) as file:
            done = on_host(host, "back-up", encode(asked), file)
            made = MADE.decode(lines_of(done.err.strip())[-1])
    return made.header, made.content


def on_host(host: Host, action: str, text: str, output: IO[bytes] | None = None) -> Done:
    """Run the other half. Raises OnMasterError."""
    return checked(host, host.run([*ON_HOST, action], stdin=text.encode(), sudo=True, timeout=PATIENCE, output=output))


def checked(host: Host, done: Done) -> Done:
    """Return what a program of Grass did on a host. Raises OnMasterError with its last line and its exit code."""
    if done.ok:
        return done
    said = done.err.strip() or done.failure()
    if "No module named" in said:
        said = "its Grass is older than this one; `grass create FILE` upgrades it"
    failure = OnMasterError(f"{host.name}: {lines_of(said)[-1]}")
    if done.code in (2, 3, 4, 74):
        failure.exit_code = done.code  # type: ignore[misc]
    raise failure
