"""One small job at a time on an idle cluster, in turns with the peer: for `start_latency.py` and `end_latency.py`.

``submitted`` is just before the client is asked to start the job, ``stamped`` what the task's program wrote, ``known``
when the waiting client had its end.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import figures
from hyperqueue_peer import HyperQueue
from local_cluster import LocalCluster, one_task
from stamping import Stamper


def run_stamp(cluster: LocalCluster, command: list[str], stamp: Path) -> dict[str, float]:
    submitted = time.time()
    cluster.run_job(one_task("bench-latency", command))
    known = time.time()
    return {"submitted": submitted, "stamped": float(stamp.read_text()), "known": known}


def compare(options: argparse.Namespace, title: str, bar: str, begin: str, end: str, longest: int) -> None:
    """Reports the milliseconds from ``begin`` to ``end``; a task lives for up to ``longest`` ms before its stamp."""
    ours: list[float] = []
    theirs: list[float] = []
    with HyperQueue() as peer, LocalCluster() as cluster:
        stamper = Stamper(cluster.folder)
        for round_number in range(-2, options.rounds):
            delay = random.randint(0, longest)
            for name, samples in (("grass", ours), ("hyperqueue", theirs)):
                stamp = cluster.folder / f"{name}.{round_number}"
                command = stamper.command(stamp, delay)
                time.sleep(random.uniform(0.02, 0.12))  # so that no sample falls in step with a clock of either side
                times = run_stamp(cluster, command, stamp) if name == "grass" else peer.stamp(command, stamp)
                if round_number >= 0:  # the first two warm up
                    samples.append(1000 * (times[end] - times[begin]))
    grass, hyperqueue = figures.Figure("Grass", ours, "ms"), figures.Figure("HyperQueue 0.27", theirs, "ms")
    figures.report(options, title, [grass, hyperqueue, figures.ratio(grass, hyperqueue)], bar)
