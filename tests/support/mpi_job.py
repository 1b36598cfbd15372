"""A job of an MPI launcher and one host on each of three nodes, as users write it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from grass.api.client import Client
from tests.support.on_premises import Cluster
from tests.support.three_nodes import NODES, lines
from tests.support.waiting import wait_until

RANK = Path(__file__).with_name("mpi_rank.py")
_PARTS = f"{re.escape(RANK.name)}|hydra_pmi_proxy|^orted|^mpiexec"
_PRINTED = re.compile(r"rank (\d+) of 3: 3 here, on (\w+), pid (\d+) end")


class Rank(NamedTuple):
    node: str
    pid: int


def mpi_job(name: str, framework: str) -> dict[str, Any]:
    """Return a job whose ranks wait."""
    where = " -wdir /tmp" if framework == "mpich" else ""
    ranks = f'python3 "$GRASS_DATA/mpi/{RANK.name}" {framework} wait'
    part = {"framework": framework, "resources": {"cpu": 0.05, "memory": "64MiB"}}
    return {
        "name": name,
        "success": ["launcher"],
        "components": {
            "launcher": {
                **part,
                "depends_on": {"worker": "running"},
                "command": f"exec mpiexec.{framework} -np 3{where} {ranks}",
            },
            "worker": {**part, "replicas": 3, "spread": "node", "command": "exec sleep 1000"},
        },
    }


def start_ranks(cluster: Cluster, client: Client, name: str, framework: str) -> list[Rank]:
    """Start the job and return its ranks, which have found each other: one on each node."""
    sent = cluster.grass("data", "push", str(RANK), f"mpi/{RANK.name}")
    assert sent.returncode == 0, sent.stderr
    client.start(mpi_job(name, framework))
    try:
        wait_until(lambda: len(_ranks(client, name)) == 3 or client.job(name).ended, 120, "three ranks", 0.2)
    except AssertionError as error:
        raise AssertionError(f"{error}: {client.tasks(name)} printed {lines(client, name)}") from error
    found = _ranks(client, name)
    assert sorted(rank.node for rank in found) == list(NODES), lines(client, name)
    return found


def assert_over(cluster: Cluster, client: Client, name: str, ranks: list[Rank]) -> None:
    """The launcher failed, and neither a rank nor a part of the launcher runs on any node."""
    assert client.wait(name, timeout=90).state == "FAILED"
    for rank in ranks:
        wait_until(lambda rank=rank: not _runs(cluster, rank), 30, f"the end of rank {rank}", 0.2)  # type: ignore[misc]


def _runs(cluster: Cluster, rank: Rank) -> bool:
    return cluster.lab.hosts[rank.node].attempt("pgrep", "-f", _PARTS).code == 0


def _ranks(client: Client, name: str) -> list[Rank]:
    printed = "\n".join(lines(client, name).get(("launcher.0", 1), ()))
    return [Rank(node, int(pid)) for _, node, pid in _PRINTED.findall(printed)]
