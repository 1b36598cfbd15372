"""`Executor.map` of calls that do nothing, calls per second, from the first submission to the last result.

Beside it: the process pool of Python's own `concurrent.futures` on the same machine, which has no cluster to ask.
"""

from __future__ import annotations

import time
from concurrent.futures import Executor, ProcessPoolExecutor

import figures
from local_cluster import LocalCluster

import grass


def rate(executor: Executor, calls: int) -> float:
    begin = time.perf_counter()
    assert sum(executor.map(abs, range(calls))) == calls * (calls - 1) // 2
    return calls / (time.perf_counter() - begin)


def main() -> None:
    parser = figures.arguments(__doc__, rounds=5)
    parser.add_argument("--calls", type=int, default=5000)
    options = parser.parse_args()
    ours: list[float] = []
    pool: list[float] = []
    with LocalCluster() as cluster, grass.Executor(cluster.client) as executor, ProcessPoolExecutor(2) as processes:
        for _ in range(options.rounds):
            ours.append(rate(executor, options.calls))
            pool.append(rate(processes, options.calls))
    found = [figures.Figure("grass.Executor.map", ours, "/s"), figures.Figure("ProcessPoolExecutor.map", pool, "/s")]
    figures.report(options, f"map of {options.calls} calls that do nothing", found, "at least 300 /s")


if __name__ == "__main__":
    main()
