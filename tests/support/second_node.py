"""A second node on the machine of a local cluster: a shepherd and a node-agent of its own, with a user of the store."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from grass.config import Secrets
from grass.model.lifecycle import NodeState
from grass.node_config import NodeConfig, NodeHome
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.store.tickets import Tickets
from grass.wire.tickets import JoinNode
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

_DAEMONS = ("node.runtime.shepherd", "node.agent")


@contextmanager
def second_node(cluster: LocalCluster, name: str, **node: object) -> Iterator[None]:
    """Have another node in the cluster for the block. Its tasks have ended by then. ``node``: of its ``NodeConfig``."""
    folder = Path(tempfile.mkdtemp(prefix="grass-", dir="/tmp"))
    settings = NodeConfig(name=name, probe=True, **node)  # type: ignore[arg-type]
    home = replace(
        NodeHome.of(cluster.config, settings),
        home=str(folder),
        runtime_dir=str(folder),
        share=str(cluster.config.data_dir),
    )
    home.save()
    home.socket("collector").symlink_to(cluster.config.socket("collector"))
    secrets = Secrets.load(cluster.config.home)
    password = secrets.redis["node"]
    secrets.save(folder)
    _join(cluster, name, hashlib.sha256(password.encode()).hexdigest())
    daemons: list[subprocess.Popen[bytes]] = []
    with (folder / "daemons.log").open("ab") as log, cluster.client() as client:
        try:
            for module in _DAEMONS:
                command = [sys.executable, "-m", module, str(home.path)]
                daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log))
            try:
                wait_until(lambda: client.node(name).state is NodeState.READY, what=f"node {name}")
            except AssertionError as error:
                error.add_note(str(client.node(name).reason))
                error.add_note((folder / "daemons.log").read_text(errors="replace")[-3000:])
                raise
            yield
        finally:
            for daemon in reversed(daemons):
                daemon.terminate()
                daemon.wait(20)
            client.remove_node(name, force=True)
            shutil.rmtree(folder, ignore_errors=True)


def _join(cluster: LocalCluster, name: str, digest: str) -> None:
    backend = open_backend(cluster.config, Secrets.load(cluster.config.home), "api")
    try:
        Tickets(backend, Keys(cluster.config.key_prefix)).ticket(JoinNode(name=name, digest=digest, user="root"))
    finally:
        backend.close()
