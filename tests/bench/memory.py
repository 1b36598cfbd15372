"""Memory of the daemons, proportional set size (pages shared by several processes are split among them).

Node side: node-agent and node-api-server. Master side: master-agent and master-api-server. Each with its children,
idle, after an array has passed through. The other processes of a cluster are listed too, so that nothing is hidden.
"""

from __future__ import annotations

from pathlib import Path

import figures
import psutil
from local_cluster import LocalCluster, array

MEBIBYTE = 1024 * 1024
NODE = ("node-agent", "node-api-server")
MASTER = ("master-agent", "master-api-server")


def pss(pid: int, others: set[int]) -> float:
    """MiB of the process and all that it started, down to the first that is one of ``others``."""
    waiting, total = children(psutil.Process(pid), others), _pss_of_one(pid)
    if total == 0:
        raise ValueError(f"process {pid} has ended")
    while waiting:
        process = waiting.pop()
        total += _pss_of_one(process.pid)
        waiting += children(process, others)
    return total / MEBIBYTE


def children(process: psutil.Process, others: set[int]) -> list[psutil.Process]:
    """Return those that are none of ``others``; none of a process that has just ended."""
    try:
        return [child for child in process.children() if child.pid not in others]
    except psutil.NoSuchProcess:
        return []


def _pss_of_one(pid: int) -> int:
    """Return bytes; 0 of a process that has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def main() -> None:
    parser = figures.arguments(__doc__, rounds=3)
    parser.add_argument(
        "--tasks", type=int, default=1000, help="tasks that run before measuring (default: %(default)s)"
    )
    options = parser.parse_args()
    measured: dict[str, list[float]] = {}
    with LocalCluster() as cluster:
        for _ in range(options.rounds):
            cluster.run_job(array("bench-memory", ["/bin/true"], options.tasks))
            pids = cluster.daemons()
            daemons = {name: pss(pid, set(pids.values())) for name, pid in pids.items()}
            sides = {
                "node: agent + api": sum(daemons[name] for name in NODE),
                "master: agent + api": sum(daemons[name] for name in MASTER),
            }
            for name, value in {**sides, **daemons}.items():
                measured.setdefault(name, []).append(value)
    found = [figures.Figure(name, samples, "MiB") for name, samples in measured.items()]
    title = f"memory (PSS), after each of {options.rounds} arrays of {options.tasks} tasks"
    figures.report(options, title, found, "node at most 90 MiB, master at most 160 MiB")


if __name__ == "__main__":
    main()
