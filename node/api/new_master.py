"""Takes the address of another master, which took over by itself. Used by ``app``.

It is written into the node's ``cluster.json``. The node's daemons that read it then end, and systemd starts them again
(``grass.supervision.address_watch``). The shepherd and its tasks go on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grass.api.known_master import point_to
from grass.errors import ConflictError
from grass.node_config import NodeHome
from grass.system.private_file import write_private
from grass.wire.node_api import NewMaster

TERM = "master-term"
"""File in the node's folder: the term of the master that told its address last, and the thumbprint of its cluster's
key. A master of before is refused; one of another cluster of the same name is not."""


def take(config: NodeHome, asked: NewMaster, cluster: str = "") -> None:
    """``cluster``: thumbprint of its key; empty: not known. Raises ConflictError: a later master told its address
    before."""
    path = Path(config.home) / TERM
    term, *of = path.read_text().split() if path.exists() else ["0"]
    if asked.term < int(term) and not (cluster and of and of != [cluster]):
        raise ConflictError("a later master took this node over")
    write_private(path, f"{asked.term} {cluster}\n")
    before = NodeHome.load(config.path)
    after = replace(
        before,
        redis=replace(before.redis, host=asked.host, port=asked.port),
        collector=asked.collector or None,
        task_redis_server=asked.task_redis_server or None,
    )
    if asked.url:
        point_to(config.tls_files, (asked.url,))
    if after != before:
        mode = config.path.stat().st_mode & 0o777
        after.save(config.path.with_suffix(".told"))
        config.path.with_suffix(".told").chmod(mode)
        config.path.with_suffix(".told").replace(config.path)
