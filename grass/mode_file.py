"""The file ``mode`` in a cluster's folder. Written by provisioners before anything else.

Read by ``registry``. Other code asks a predicate of this module, and compares no modes.
"""

from __future__ import annotations

from pathlib import Path

from grass.model.mode import AKS, KUBERNETES, KUBERNETES_INSIDE, LOCAL
from grass.system.atomic_file import replace_file

_FILE = "mode"


def write_mode(folder: Path, mode: str) -> None:
    replace_file(folder / _FILE, mode + "\n")


def read_mode(folder: Path) -> str | None:
    try:
        return (folder / _FILE).read_text().strip() or None
    except FileNotFoundError:
        return None


def is_on_this_machine(folder: Path) -> bool:
    """Return whether the cluster's tasks run on this machine, with its files and programs."""
    return read_mode(folder) == LOCAL


def is_inside(folder: Path) -> bool:
    """Return whether the cluster's master, with the share, is a pod of Kubernetes."""
    return read_mode(folder) == KUBERNETES_INSIDE


def keeps_files_here(folder: Path) -> bool:
    """Return whether the cluster's share, with the files of its jobs, is a folder of this machine."""
    return read_mode(folder) in (LOCAL, KUBERNETES, AKS)
