"""Takes the address of another master, which took over by itself. Used by ``app``.

It is written into the node's ``cluster.json``. The node's daemons that read it then end, and systemd starts them again
(``grass.supervision.address_watch``). The shepherd and its tasks go on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grass.errors import ConflictError
from grass.node_config import NodeHome
from grass.system.private_file import write_private
from grass.wire.node_api import NewMaster

TERM = "master-term"
"""File in the node's folder: the term of the master that told its address last. One of before is refused."""


def take(config: NodeHome, asked: NewMaster) -> None:
    """Raises ConflictError: a later master told its address before."""
    term = Path(config.home) / TERM
    known = int(term.read_text()) if term.exists() else 0
    if asked.term < known:
        raise ConflictError("a later master took this node over")
    write_private(term, f"{asked.term}\n")
    before = NodeHome.load(config.path)
    after = replace(
        before,
        redis=replace(before.redis, host=asked.host, port=asked.port),
        collector=asked.collector or None,
        task_redis_server=asked.task_redis_server or None,
    )
    if after != before:
        mode = config.path.stat().st_mode & 0o777
        after.save(config.path.with_suffix(".told"))
        config.path.with_suffix(".told").chmod(mode)
        config.path.with_suffix(".told").replace(config.path)
