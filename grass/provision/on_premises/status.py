"""States of a master's daemons, and damage of its redis' log, read over SSH. Used by ``provisioner``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from grass.errors import GrassError
from grass.lines import lines_of
from grass.model.daemons import DaemonState
from grass.provision.namespaces import DAEMONS
from grass.provision.on_premises.design import STATE
from grass.provision.on_premises.log_damage import log_damage, may_be_damaged
from grass.provision.on_premises.machines import load_machines, open_host
from grass.provision.provisioner import Session

_ASK = """
date +%s; cut -d' ' -f1 /proc/uptime
systemctl show --all --property=Id,LoadState,ActiveState,MainPID,ActiveEnterTimestampMonotonic "grass-*@$1.service"
"""
_OF_NAMESPACES = frozenset(daemon.name for daemon in DAEMONS)
_WORDS = {"active": "RUNNING", "reloading": "RUNNING", "activating": "STARTING", "deactivating": "STOPPING"}


class MasterState(NamedTuple):
    """What was found on a master.

    ``error``: why the master could not be reached, or empty. ``problems``: faults, each with what to do.
    """

    daemons: tuple[DaemonState, ...] = ()
    error: str = ""
    problems: tuple[str, ...] = ()


def master_state(session: Session) -> MasterState:
    """Ask the master's machine for its daemons, and for damage of redis' log if redis does not run well."""
    machines = load_machines(session.name, session.home)
    if machines is None:
        return MasterState()
    try:
        with open_host(machines.master, session.client_dir) as host:
            said = host.run(["sh", "-c", _ASK, "status", session.name], timeout=20).check().out
            daemons = tuple(parse(said))
            path = f"{STATE}/clusters/{session.name}/cluster.json"
            damage = log_damage(host, path) if may_be_damaged(daemons, _now(said)) else ""
            return MasterState(daemons, problems=(damage,) if damage else ())
    except GrassError as error:
        return MasterState(error=str(error))


def _now(text: str) -> float:
    """Return the wall seconds of the master's clock, the first line of what ``_ASK`` prints."""
    return float(text.partition("\n")[0] or 0)


def parse(text: str) -> Iterator[DaemonState]:
    """Yield the states of installed units. ``start`` in wall seconds of the master's clock.

    A daemon of a namespace of Kubernetes is called ``DAEMON@NODE``, as on a cluster on one machine."""
    head, _, rest = text.partition("\n")
    uptime, _, rest = rest.partition("\n")
    booted = float(head or 0) - float(uptime or 0)
    for block in rest.strip().split("\n\n"):
        unit = dict(line.split("=", 1) for line in lines_of(block) if "=" in line)
        if not unit.get("Id") or unit.get("LoadState") == "not-found":
            continue
        name = unit["Id"].rpartition("@")[0].removeprefix("grass-")
        if "@" in name and name.partition("@")[0] not in _OF_NAMESPACES:
            continue  # its template says when it starts beside such units of a machine, so systemd knows their names
        running = unit.get("ActiveState") in ("active", "reloading")
        yield DaemonState(
            name,
            int(unit.get("MainPID", "0")) or None,
            _WORDS.get(unit.get("ActiveState", ""), "STOPPED"),
            booted + int(unit.get("ActiveEnterTimestampMonotonic", "0")) / 1e6 if running else None,
        )
