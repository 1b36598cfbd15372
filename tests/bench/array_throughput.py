"""An array of 5,000 /bin/true on one node: first submit until the client has seen all done. Peer: HyperQueue.

One job, one cpu per task, all cores of the machine, a stdout and a stderr file per task, on both sides. Rounds
alternate. HyperQueue's client looks once a second, so it sees the end up to a second late; the line "last task" is its
rate until it started its last task, without that wait.
"""

from __future__ import annotations

import time

import figures
from hyperqueue_peer import HyperQueue
from local_cluster import LocalCluster, array


def measure_grass(cluster: LocalCluster, tasks: int) -> float:
    begin = time.perf_counter()
    cluster.run_job(array("bench-array", ["/bin/true"], tasks))
    return time.perf_counter() - begin


def main() -> None:
    parser = figures.arguments(__doc__, rounds=5)
    parser.add_argument("--tasks", type=int, default=5000)
    options = parser.parse_args()
    ours: list[float] = []
    theirs: list[float] = []
    work: list[float] = []
    with HyperQueue() as peer, LocalCluster() as cluster:
        measure_grass(cluster, 100)
        peer.array(100)
        for round_number in range(1, options.rounds + 1):
            ours.append(options.tasks / measure_grass(cluster, options.tasks))
            seen = peer.array(options.tasks)
            theirs.append(options.tasks / seen["seconds"])
            work.append(options.tasks / seen["last"])
            figures.progress(f"round {round_number}: Grass {ours[-1]:.0f}/s, HyperQueue {theirs[-1]:.0f}/s")
    grass, hyperqueue = figures.Figure("Grass", ours, "/s"), figures.Figure("HyperQueue 0.27", theirs, "/s")
    unhurried = figures.Figure("HyperQueue, last task", work, "/s")
    found = [grass, hyperqueue, unhurried, figures.ratio(grass, hyperqueue), figures.ratio(grass, unhurried)]
    title = f"array of {options.tasks} /bin/true, tasks per second"
    figures.report(options, title, found, "at least 1.3 × HyperQueue")


if __name__ == "__main__":
    main()
