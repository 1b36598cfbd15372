"""How fast the log of one task is read: `grass job logs`, a cold process, MB/s of what the task printed.

The goal is 50 MB/s. The floor is `cat` of the file in which the collector keeps the log.
"""

from __future__ import annotations

import subprocess
import time

import figures
from local_cluster import GRASS, LocalCluster, one_task

MEGABYTES = 100
_PRINT = "import sys\nline = 'step %06d loss=0.123456 accuracy=0.987654 and some more words of a log\\n'\n"


def program(megabytes: int) -> str:
    return _PRINT + f"sys.stdout.write(''.join(line % n for n in range({megabytes * 1_000_000 // 76})))\n"


def rate(command: list[object], size: int) -> float:
    """Return MB/s of ``size`` bytes."""
    begin = time.perf_counter()
    subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL, check=True)
    return size / 1e6 / (time.perf_counter() - begin)


def main() -> None:
    parser = figures.arguments(__doc__, rounds=3)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    options = parser.parse_args()
    with LocalCluster() as cluster:
        cluster.run_job(one_task("talks", ["python3", "-c", program(options.megabytes)]))
        size = len(subprocess.run([GRASS, "job", "logs", "talks"], capture_output=True, check=True).stdout)
        files = sorted(cluster.home.glob("clusters/*/data/logs/talks-*/*.jsonl"))
        ours = [rate([GRASS, "job", "logs", "talks"], size) for _ in range(options.rounds)]
        floor = [rate(["cat", *files], size) for _ in range(options.rounds)]
    grass, cat = (
        figures.Figure("grass job logs", ours, "MB/s"),
        figures.Figure("cat of the collector's file", floor, "MB/s"),
    )
    figures.report(options, f"log of {size / 1e6:.0f} MB", [grass, cat], "at least 50 MB/s")


if __name__ == "__main__":
    main()
