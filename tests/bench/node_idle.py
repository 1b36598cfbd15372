"""What a node costs while it does nothing: CPU and memory (PSS) of the node-agent and the node-api-server.

Of a local cluster that offers processes only, and, where there is an engine, of one that offers containers too and has
run some. CPU is that of the processes and all that they started, as a share of one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import figures  # noqa: E402
import local_cluster  # noqa: E402
import psutil  # noqa: E402
from memory import NODE, pss  # noqa: E402

from node.runtime.docker.engine import SOCKET  # noqa: E402
from tests.support.engine import (  # noqa: E402
    IMAGE,
    answers,
    provide_image,
)


class NodeCluster(local_cluster.LocalCluster):
    """Offers ``runtimes``."""

    def __init__(self, *runtimes: str) -> None:
        super().__init__()
        self._runtimes = runtimes

    def create(self) -> None:
        settings = self.folder / "settings.yml"
        settings.write_text(f"name: local\nruntimes: [{', '.join(self._runtimes)}]\n")
        local_cluster.run("create", str(settings))


def main() -> None:
    parser = figures.arguments(__doc__, rounds=3)
    parser.add_argument("--seconds", type=float, default=20, help="of one round (default: %(default)s)")
    options = parser.parse_args()
    found = _measure(options, "processes", ("process",), None)
    if answers():
        provide_image(SOCKET)
        found += _measure(options, "and containers", ("process", "docker"), IMAGE)
    title = f"an idle node: agent and API, {options.rounds} × {options.seconds:g} s"
    figures.report(options, title, found, "at most 1 % of a core, 90 MiB")


def _measure(
    options: argparse.Namespace, name: str, runtimes: tuple[str, ...], image: str | None
) -> list[figures.Figure]:
    cpu = figures.Figure(f"CPU, {name}", [], "%")
    memory = figures.Figure(f"PSS, {name}", [], "MiB")
    with NodeCluster(*runtimes) as cluster:
        job = local_cluster.array("bench-idle", ["true"], 8)
        if image:
            job["components"]["task"]["image"] = image
        cluster.run_job(job)
        pids = cluster.daemons()
        for _ in range(options.rounds):
            before = sum(_used(pids[each]) for each in NODE)
            time.sleep(options.seconds)
            used = sum(_used(pids[each]) for each in NODE) - before
            cpu.samples.append(100 * used / options.seconds)
            memory.samples.append(sum(pss(pids[each], set(pids.values())) for each in NODE))
    return [cpu, memory]


def _used(pid: int) -> float:
    """Seconds of CPU of the process and of all that it started and that lives."""
    process = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:2]) for each in [process, *process.children(recursive=True)])


if __name__ == "__main__":
    main()
