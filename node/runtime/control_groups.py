"""Where the kernel's control groups (versions 1 and 2) of a process are, and which of them limit tasks.

Used by ``shepherd``, ``docker.container``, ``isolation.groups``, ``node.agent.container_usage`` and
``node.agent.this_machine``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from grass.lines import lines_of
from grass.system.atomic_file import replace_file
from node.runtime import proc

ROOT = "/sys/fs/cgroup"
CONTROLLERS = ("memory", "cpu", "pids")
"""Those that limit tasks."""
_LIMITS = "limits"
"""File in the node's folder, where users are isolated. It says for people which limits tasks have."""


def write_limits(node_dir: Path, words: str) -> None:
    """Publish which limits tasks have. Called by the shepherd."""
    replace_file(node_dir / _LIMITS, words)


def limits(node_dir: Path) -> dict[str, str]:
    """Return what the shepherd wrote, as an addition to the node's versions. Empty: it wrote nothing."""
    with suppress(OSError):
        return {"limits": (node_dir / _LIMITS).read_text()}
    return {}


def processes_group(pid: int) -> str:
    """Return the control group in which the kernel counts a process and its children. Empty: the process has ended."""
    found = of_process(pid)
    return found.get("pids") or found.get("", "")


def of_process(pid: int) -> dict[str, str]:
    """Return controller → folder of a process. Empty: it has ended."""
    return folders(proc.read(f"/proc/{pid}/cgroup").decode(errors="replace"))


def folders(text: str, root: str = ROOT) -> dict[str, str]:
    """Return controller → folder, from the content of /proc/PID/cgroup. Version 2 has one folder, with the name ""."""
    found = {}
    for line in lines_of(text):
        number, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if number == "0" or not controller.startswith("name="):
                found[controller] = f"{root}/{controller}{path}" if controller else f"{root}{path}"
    return {controller: folder.rstrip("/") for controller, folder in found.items()}
