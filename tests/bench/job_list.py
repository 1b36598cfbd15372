"""`grass job list` as a cold process against a running cluster that has seen a few jobs. Floor: Python's own start.

``--kept 20000``: the cluster keeps so many finished jobs, too, which takes two minutes to make. Then also lists by name
and by tag, which look at all of them, and the memory (PSS) of the API server before and after, of the master-agent and
of redis; and restarts the master-agent. ``--logs 10000``: so many of these jobs have a log file.
Peers, measured elsewhere on the machine of the design: `squeue` 5 ms, `rq info` 238 ms.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

import figures
from local_cluster import GRASS, LocalCluster, one_task
from queued_jobs import end_all, fill, job_id, memory, restart


def wall(command: Sequence[object]) -> float:
    """Milliseconds from before the process is made until it has ended."""
    begin = time.perf_counter()
    subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL, check=True)
    return 1000 * (time.perf_counter() - begin)


def write_logs(cluster: LocalCluster, count: int) -> None:
    """Write what the collector would have written, for the newest of the jobs of ``fill``."""
    logs = cluster.home / "clusters" / "local" / "data" / "logs"
    for number in range(count):
        folder = logs / job_id(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "task.0.jsonl").write_text("{}\n")


def main() -> None:
    parser = figures.arguments(__doc__, rounds=30)
    parser.add_argument("--kept", type=int, default=0, help="finished jobs that the cluster keeps")
    parser.add_argument("--logs", type=int, default=0, help="log files of these")
    options = parser.parse_args()
    ours: list[float] = []
    floor: list[float] = []
    listing = [GRASS, "job", "list"]
    selections = {"--name 'queued-1999*'": ["--name", "queued-1999*"], "--tag none": ["--tag", "none"]}
    more: list[figures.Figure] = []
    settings = f"mode: local\nname: local\nkeep_jobs: {options.kept + 10}\n" if options.kept else ""
    with LocalCluster(settings) as cluster:
        if options.kept:
            fill(cluster, options.kept)
            end_all(cluster, options.kept)
            cluster.client.stop("bench-holder")
            cluster.client.wait("bench-holder", 60)
            listing.append("--all")
            write_logs(cluster, min(options.logs, options.kept))
        for number in range(5):
            cluster.run_job(one_task(f"bench-{number}", ["/bin/true"]))
        wall(listing)
        for _ in range(options.rounds):
            ours.append(wall(listing))
            floor.append(wall([sys.executable, "-c", "pass"]))
        if options.kept:
            before = memory(cluster, "master-api-server")
            for name, words in selections.items():
                times = [wall([*listing, *words]) for _ in range(options.rounds)]
                more.append(figures.Figure(f"grass job list --all {name}", times, "ms"))
            more += [
                figures.Figure("API server before these", [before], "MiB"),
                figures.Figure("API server after these", [memory(cluster, "master-api-server")], "MiB"),
                figures.Figure("master-agent", [memory(cluster, "master-agent")], "MiB"),
                figures.Figure("ready after a restart", [restart(cluster) for _ in range(3)], "s"),
                figures.Figure("master-agent, after a restart", [memory(cluster, "master-agent")], "MiB"),
                figures.Figure("redis", [memory(cluster, "redis")], "MiB"),
            ]
    grass, python = figures.Figure("grass job list", ours, "ms"), figures.Figure("python -c pass", floor, "ms")
    title = "`grass job list`, cold process"
    figures.report(options, title, [grass, python, figures.ratio(grass, python), *more], "at most 200 ms, then 120 ms")


if __name__ == "__main__":
    main()
