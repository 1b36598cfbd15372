"""Note of the node-agent that the machine shuts down: from then on, ends of containers are the machine's doing.

Processes need none: the shepherd's journal has the reason of each end. Used by ``node.agent.loop`` and
``docker.ends``.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from grass.system.atomic_file import replace_file

_FILE = "shutdown.json"


class Note(NamedTuple):
    """The note. ``boot``: id of the boot that ends. ``at``: wall time of the beginning of its end."""

    boot: str
    at: float


def write(folder: Path, note: Note) -> None:
    """A disk that is full must not keep a machine from shutting down."""
    with suppress(OSError):
        replace_file(folder / _FILE, json.dumps(note._asdict()) + "\n")


def read(folder: Path) -> Note | None:
    """Return the last note; None: there is none, or it is damaged."""
    try:
        wire = json.loads((folder / _FILE).read_bytes())
        return Note(str(wire["boot"]), float(wire["at"]))
    except (OSError, ValueError, TypeError, LookupError):
        return None
