"""Files of a master that say which one it is of its cluster, and, once it was replaced, where the new one is.

Used by ``grass.provision.on_premises.moved_in`` and ``master.api``.
"""

from __future__ import annotations

from pathlib import Path

from grass.config import ClusterConfig
from grass.system.atomic_file import replace_file

MOVED_TO = "moved-to"
"""File in the cluster's folder of a fenced master: the signed notice of the new one (``grass.api.notice``). Its API
server answers all requests with it."""
_MOVES = "moves"
"""File in the master's folder, which goes with the master to each machine, also to the standby."""


TERM = "term"
"""File in the cluster's folder with the term of the master, as of ``grass.wire.backup.Restored``."""


def number(config: ClusterConfig) -> tuple[int, int]:
    """Return the number of the master of this folder (``grass.wire.notice``)."""
    return _count(Path(config.home) / TERM), _count(config.master_dir / _MOVES)


def count_move(master_dir: Path) -> None:
    replace_file(master_dir / _MOVES, f"{_count(master_dir / _MOVES) + 1}\n")


def _count(path: Path) -> int:
    try:
        return int(path.read_text())
    except FileNotFoundError:
        return 0


def moved_to(home: Path) -> str:
    """Return the notice with which a fenced master answers; empty: there is none."""
    try:
        return (home / MOVED_TO).read_text()
    except FileNotFoundError:
        return ""
