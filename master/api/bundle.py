"""The bundle that the master serves to joining machines: a tar of wheels beside the environment it runs from.

Used by ``join_downloads`` and ``joins``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bundle:
    """The bundle, as its description says.

    ``digest``: SHA-256 of the file, hexadecimal. ``nodes``: kinds of machines it is for (``3.11-x86_64-glibc``).
    """

    path: Path
    digest: str
    version: str
    nodes: tuple[str, ...]


def find_bundle(folder: Path | None = None) -> Bundle | None:
    """Return the bundle, or None if this master was not installed from one (a local cluster, a checkout)."""
    folder = folder or _beside()
    if folder is None:
        return None
    wire = json.loads((folder / "bundle.json").read_text())
    path = folder / wire["file"]
    return Bundle(path, wire["digest"], wire["version"], tuple(wire.get("nodes", ())))


def _beside() -> Path | None:
    """Return the folder of the bundle. ``/opt/grass/venv`` links to ``/opt/grass/venvs/…``; the bundle is in
    ``/opt/grass/bundle``."""
    candidates = [parent / "bundle" for parent in Path(sys.prefix).parents[:2]]
    return next((folder for folder in candidates if (folder / "bundle.json").is_file()), None)
