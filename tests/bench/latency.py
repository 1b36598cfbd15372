"""One small job at a time on an idle cluster, in turns with the peer: for `start_latency.py` and `end_latency.py`.

``submitted`` is just before the client is asked to start the job, ``stamped`` what the task's program wrote, ``known``
when the waiting client had its end.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import figures
from hyperqueue_peer import HyperQueue
from ladder import Ladder
from local_cluster import LocalCluster, one_task
from stamping import Stamper

ROW = 5
"""Jobs one after another, for each round of the others: one takes 12 ms, and the first find cold caches."""


def run_stamp(cluster: LocalCluster, command: list[str], stamp: Path) -> dict[str, float]:
    submitted = time.time()
    cluster.run_job(one_task("bench-latency", command))
    known = time.time()
    return {"submitted": submitted, "stamped": float(stamp.read_text()), "known": known}


def compare(
    options: argparse.Namespace, title: str, bar: str, begin: str, end: str, longest: int, ladder: bool = False
) -> None:
    """Reports the milliseconds from ``begin`` to ``end``; a task lives for up to ``longest`` ms before its stamp.

    After a rest, in which both lose what the caches held; and Grass, where tasks end at once, with one job right after
    the other, too, once HyperQueue is gone (its client looks once a second whether a job has ended).
    """
    with TemporaryDirectory() as folder:
        _compare(options, title, bar, (begin, end), longest, Ladder(Path(folder)) if ladder else None)


def _compare(
    options: argparse.Namespace, title: str, bar: str, span: tuple[str, str], longest: int, ladder: Ladder | None
) -> None:
    begin, end = span
    with LocalCluster() as cluster, ExitStack() as beside:
        peer = beside.enter_context(HyperQueue())
        stamper = Stamper(cluster.folder)
        sides: dict[str, Callable[[list[str], Path], dict[str, float]]] = {
            "Grass": lambda command, stamp: run_stamp(cluster, command, stamp),
            "HyperQueue 0.27": peer.stamp,
        }

        ladders: dict[str, list[tuple[float, float]]] = {"rested": [], "row": []}

        def sample(name: str, mark: str, delay: int) -> float:
            stamp = cluster.folder / f"{name.split()[0]}.{mark}"
            times = sides[name](stamper.command(stamp, delay), stamp)
            if ladder is not None and name == "Grass":
                ladders["row" if mark.startswith("row") else "rested"].append((times[begin], times[end]))
            return 1000 * (times[end] - times[begin])

        rested: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(-2, options.rounds):
            delay = random.randint(0, longest)
            for name, samples in rested.items():
                time.sleep(0.5 + random.uniform(0.0, 0.1))  # at rest, and in step with no clock of either side
                taken = sample(name, str(number), delay)
                if number >= 0:  # the first two warm up
                    samples.append(taken)
        found = [figures.Figure(name, samples, "ms") for name, samples in rested.items()]
        found.append(figures.ratio(*found))
        if longest == 0:
            beside.close()  # its daemons take processor time, and it is not compared here
            row = [sample("Grass", f"row.{number}", 0) for number in range(ROW * options.rounds + 2)][2:]
            found.append(figures.Figure("Grass, one after another", row, "ms"))
        for name, spans in ladders.items() if ladder is not None else ():
            for begun, ended in spans[2:]:
                ladder.climb(name, begun, ended)
        found += ladder.figures() if ladder is not None else []
    figures.report(options, title, found, bar)
