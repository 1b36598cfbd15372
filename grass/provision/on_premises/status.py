"""States of a master's daemons, by one call over SSH. Called by ``provisioner``."""

from __future__ import annotations

from collections.abc import Iterator

from grass.errors import GrassError
from grass.provision.on_premises.machines import load_machines, open_host
from grass.provision.provisioner import DaemonState, Session

_ASK = """
date +%s; cut -d' ' -f1 /proc/uptime
systemctl show --all --property=Id,LoadState,ActiveState,MainPID,ActiveEnterTimestampMonotonic "grass-*@$1.service"
"""
_WORDS = {"active": "RUNNING", "reloading": "RUNNING", "activating": "STARTING", "deactivating": "STOPPING"}


def master_daemons(session: Session) -> tuple[list[DaemonState], str]:
    """Return the daemons' states, and the error if there was one."""
    machines = load_machines(session.name, session.home)
    if machines is None:
        return [], ""
    try:
        with open_host(machines.master, session.client_dir) as host:
            return list(parse(host.run(["sh", "-c", _ASK, "status", session.name], timeout=20).check().out)), ""
    except GrassError as error:
        return [], str(error)


def parse(text: str) -> Iterator[DaemonState]:
    """Yield the states of installed units. ``start`` in wall seconds of the master's clock."""
    head, _, rest = text.partition("\n")
    uptime, _, rest = rest.partition("\n")
    booted = float(head or 0) - float(uptime or 0)
    for block in rest.strip().split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if not unit.get("Id") or unit.get("LoadState") == "not-found":
            continue
        running = unit.get("ActiveState") in ("active", "reloading")
        yield DaemonState(
            unit["Id"].partition("@")[0].removeprefix("grass-"),
            int(unit.get("MainPID", "0")) or None,
            _WORDS.get(unit.get("ActiveState", ""), "STOPPED"),
            booted + int(unit.get("ActiveEnterTimestampMonotonic", "0")) / 1e6 if running else None,
        )
