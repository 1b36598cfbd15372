"""Control groups of this machine, of version 1 or 2, for tests of limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from node.runtime import control_groups, proc
from tests.support.needs import require

ROOT = Path(control_groups.ROOT)
UNIFIED = (ROOT / "cgroup.controllers").exists()
"""Whether they are of version 2."""
MEMORY_LIMIT = "memory.max" if UNIFIED else "memory.limit_in_bytes"
CPU_SHARE = "cpu.weight" if UNIFIED else "cpu.shares"


def require_limits() -> None:
    """Require control groups that can limit a process."""
    if not UNIFIED:
        require((ROOT / "memory" / "cgroup.procs").exists(), "control groups")
        return
    with suppress(OSError):
        for controller in control_groups.CONTROLLERS:
            (ROOT / "cgroup.subtree_control").write_text(f"+{controller}")
    enabled = (ROOT / "cgroup.subtree_control").read_text().split()
    require(set(enabled).issuperset(control_groups.CONTROLLERS), "control groups that root may divide")


def of_process(pid: int | None) -> dict[str, Path]:
    """Return controller → folder of the group of a process."""
    assert pid is not None
    found = control_groups.folders(proc.read(f"/proc/{pid}/cgroup").decode())
    return {name: Path(found[""] if UNIFIED else found[name]) for name in control_groups.CONTROLLERS}


def alone(command: Sequence[str], name: str) -> list[str]:
    """Return a command that starts in a group of its own, as a unit of systemd does. Version 1 needs none."""
    if not UNIFIED:
        return list(command)
    folder = ROOT / name
    folder.mkdir(exist_ok=True)
    return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(folder), *command]


def remove(name: str) -> None:
    """Remove a group that ``alone`` made, with those below. They have no processes."""
    for folder, _, _ in os.walk(ROOT / name, topdown=False):
        os.rmdir(folder)
