"""The bundle that this master hands to joining machines: one tar of wheels beside the environment it runs from."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bundle:
    """``digest``: SHA-256 of the file, in hexadecimal. ``nodes``: the machines it is for (``3.11-x86_64-glibc``)."""

    path: Path
    digest: str
    version: str
    nodes: tuple[str, ...]


def find_bundle(folder: Path | None = None) -> Bundle | None:
    """None: this master was not installed from a bundle (a cluster on one machine, a checkout)."""
    folder = folder or _beside()
    if folder is None:
        return None
    wire = json.loads((folder / "bundle.json").read_text())
    path = folder / wire["file"]
    return Bundle(path, wire["digest"], wire["version"], tuple(wire.get("nodes", ())))


def _beside() -> Path | None:
    """``/opt/grass/venv`` is a link to ``/opt/grass/venvs/…``; the bundle lies in ``/opt/grass/bundle``."""
    candidates = [parent / "bundle" for parent in Path(sys.prefix).parents[:2]]
    return next((folder for folder in candidates if (folder / "bundle.json").is_file()), None)
