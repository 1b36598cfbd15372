"""What the daemons of a master do, by one call over SSH."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grass.environment import cluster_home
from grass.errors import GrassError
from grass.provision.on_premises.machines import load_machines, open_host

_ASK = """
date +%s; cut -d' ' -f1 /proc/uptime
systemctl show --all --property=Id,LoadState,ActiveState,MainPID,ActiveEnterTimestampMonotonic "grass-*@$1.service"
"""
_WORDS = {"active": "RUNNING", "reloading": "RUNNING", "activating": "STARTING", "deactivating": "STOPPING"}


def master_daemons(name: str, home: Path | None = None) -> tuple[list[dict[str, Any]], str]:
    """``{"name", "pid", "state", "start"}`` each, as ``local.status`` has it; and what went wrong, if anything did."""
    machines = load_machines(name, home)
    assert machines is not None
    try:
        with open_host(machines.master, cluster_home(name, home) / "client") as host:
            return list(parse(host.run(["sh", "-c", _ASK, "status", name], timeout=20).check().out)), ""
    except GrassError as error:
        return [], str(error)


def parse(text: str) -> Iterator[dict[str, Any]]:
    """``start`` in wall seconds of the master's clock. Units that are not installed are left out."""
    head, _, rest = text.partition("\n")
    uptime, _, rest = rest.partition("\n")
    booted = float(head or 0) - float(uptime or 0)
    for block in rest.strip().split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if not unit.get("Id") or unit.get("LoadState") == "not-found":
            continue
        running = unit.get("ActiveState") in ("active", "reloading")
        yield {
            "name": unit["Id"].partition("@")[0].removeprefix("grass-"),
            "pid": int(unit.get("MainPID", "0")) or None,
            "state": _WORDS.get(unit.get("ActiveState", ""), "STOPPED"),
            "start": booted + int(unit.get("ActiveEnterTimestampMonotonic", "0")) / 1e6 if running else None,
        }
