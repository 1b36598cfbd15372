"""`Executor.map` of calls that do nothing, calls per second, from the first submission to the last result.

Beside it, in the same run and in turns: Dask's `Client.map` and HyperQueue's Python functions, each on as many cores,
and the process pool of Python's own `concurrent.futures`, which has no cluster to ask. HyperQueue starts a Python for
each call and brings no results back, so it gets fewer calls (`--hyperqueue-calls`).
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack

import figures
from dask_peer import VERSION as DASK
from dask_peer import Dask
from hyperqueue_peer import VERSION as HYPERQUEUE
from hyperqueue_peer import HyperQueue
from local_cluster import LocalCluster

import grass


def rate(executor: Executor, calls: int) -> float:
    begin = time.perf_counter()
    assert sum(executor.map(abs, range(calls))) == calls * (calls - 1) // 2
    return calls / (time.perf_counter() - begin)


def main() -> None:
    parser = figures.arguments(__doc__, rounds=5)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--hyperqueue-calls", type=int, default=200)
    parser.add_argument("--peers", nargs="*", default=["dask", "hyperqueue"], help="installed from PyPI on first use")
    options = parser.parse_args()
    ours = figures.Figure("grass.Executor.map", [], "/s")
    pool = figures.Figure("ProcessPoolExecutor.map", [], "/s")
    peers: list[tuple[figures.Figure, Dask | HyperQueue, int]] = []
    with ExitStack() as running:
        if "dask" in options.peers:
            peers.append((figures.Figure(f"Dask {DASK}", [], "/s"), running.enter_context(Dask()), options.calls))
        if "hyperqueue" in options.peers:
            queue = running.enter_context(HyperQueue())
            peers.append((figures.Figure(f"HyperQueue {HYPERQUEUE}", [], "/s"), queue, options.hyperqueue_calls))
        running.enter_context(LocalCluster())
        executor = running.enter_context(grass.Executor())
        processes = running.enter_context(ProcessPoolExecutor(os.cpu_count()))
        for _ in range(options.rounds):
            ours.samples.append(rate(executor, options.calls))
            for figure, peer, calls in peers:
                figure.samples.append(calls / peer.functions(calls)["seconds"])
            pool.samples.append(rate(processes, options.calls))
    ratios = [figures.ratio(ours, figure) for figure, _, _ in peers]
    found = [ours, *(figure for figure, _, _ in peers), pool, *ratios]
    figures.report(options, f"map of {options.calls} calls that do nothing", found, "at least 300 /s")


if __name__ == "__main__":
    main()
