"""`grass node add`: prepared hosts of a lab (`scripts/lab`) become READY nodes, one at a time and all at once; no peer.

The hosts have the packages that a node needs, and nothing of Grass: the bundle is fetched, installed and removed in
every round. ``GRASS_LAB=NAME`` takes a lab that is up; otherwise one is made, which takes minutes the first time. With
``GRASS_BENCH_HOME=FOLDER``, the nodes join the cluster of this GRASS_HOME, whose master is in that lab, and the cluster
stays.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import figures

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.lab import session_lab
from tests.support.on_premises import Cluster, install, settings


def main() -> None:
    parser = figures.arguments(__doc__, rounds=3)
    parser.add_argument("--nodes", type=int, default=4, help="all at once (default: %(default)s)")
    options = parser.parse_args()
    with session_lab(options.nodes) as lab, tempfile.TemporaryDirectory(prefix="grass-bench-") as home:
        (site := Path(home) / "site").mkdir()
        given = Path(os.environ["GRASS_BENCH_HOME"]) if os.environ.get("GRASS_BENCH_HOME") else None
        name = next((given / "clusters").iterdir()).name if given else "bench"
        cluster = Cluster(lab, install(site), given or Path(home) / "home", settings(lab, name=name))
        if given is None:
            cluster.created()
        hosts = [f"ops@{lab.hosts[f'n{number}'].address}" for number in range(1, options.nodes + 1)]
        try:
            found = [figures.Figure("one", [_seconds(cluster, hosts[:1]) for _ in range(options.rounds)], "s")]
            if len(hosts) > 1:
                taken = [_seconds(cluster, hosts) for _ in range(options.rounds)]
                found.append(figures.Figure(f"{len(hosts)} at once", taken, "s"))
        finally:
            if given is None:
                cluster.grass("delete", "--force", "bench")
    figures.report(options, "node add of prepared hosts", found, "one at most 20 s, four at once at most 40 s")


def _seconds(cluster: Cluster, hosts: list[str]) -> float:
    """From the command to READY; the nodes are removed again, which is not counted."""
    begin = time.perf_counter()
    done = cluster.grass("node", "add", *hosts, "-o", "quiet")
    taken = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(done.stderr)
    removed = cluster.grass("node", "remove", *done.stdout.split())
    if removed.returncode:
        raise SystemExit(removed.stderr)
    return taken


if __name__ == "__main__":
    main()
