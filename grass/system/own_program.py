"""How Grass starts its own modules as other processes. Used by ``grass.provision``.

Neither the current folder nor ``PYTHONPATH`` is searched for them: both may have files of the user with the name of a
package that Grass needs, such as ``node`` or ``redis``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from grass.system.environment import whole_environment


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module. Python 3.10 searches the current folder: start it in ``/``."""
    flags = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *flags, "-m", module, *arguments]


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables, by default those of this process, without folders of ``PYTHONPATH`` that Grass does not
    need."""
    found = whole_environment() if given is None else dict(given)
    needed = [folder for folder in found.pop("PYTHONPATH", "").split(":") if folder and _is_used(folder)]
    return {**found, "PYTHONPATH": ":".join(needed)} if needed else found


def _is_used(folder: str) -> bool:
    """Return whether this process of Grass, which prefers installed packages, has imported a module from there."""
    root = Path(folder).absolute()
    files = (vars(module).get("__file__") for module in list(sys.modules.values()) if hasattr(module, "__dict__"))
    return any(isinstance(file, str) and Path(file).is_relative_to(root) for file in files)
