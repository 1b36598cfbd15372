"""`grass create`: a local cluster from nothing to READY, as a cold process. Peer: HyperQueue, to its first worker.

HyperQueue's side is a fresh Python that imports it and starts server and worker inside itself.
"""

from __future__ import annotations

import time

import figures
from hyperqueue_peer import HyperQueue, python
from local_cluster import LocalCluster


def main() -> None:
    options = figures.arguments(__doc__, rounds=7).parse_args()
    ours: list[float] = []
    theirs: list[float] = []
    python()
    for _ in range(options.rounds):
        cluster = LocalCluster()
        begin = time.perf_counter()
        cluster.create()
        ours.append(time.perf_counter() - begin)
        cluster.delete()
        begin = time.perf_counter()
        with HyperQueue():
            theirs.append(time.perf_counter() - begin)
    grass, hyperqueue = figures.Figure("Grass", ours, "s"), figures.Figure("HyperQueue 0.27", theirs, "s")
    title = "local cluster from nothing to READY"
    figures.report(options, title, [grass, hyperqueue, figures.ratio(grass, hyperqueue)], "at most 2 s")


if __name__ == "__main__":
    main()
