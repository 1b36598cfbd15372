"""Start of a process task by the shepherd, with and without isolation of users, in alternation. As root.

``python -m tests.bench.isolated_start``: median milliseconds from the request to the first instruction of the task, for
tasks of a job that runs already and for the first task of each job, for which a view is made. Needs bubblewrap.
"""

from __future__ import annotations

import os
import pwd
import statistics
import subprocess
import sys
import time

from grass.model.isolation import UidRange
from tests.support.shepherd_run import ShepherdRun

ROUNDS = 60
UIDS = UidRange(57_980, 57_981)


def once(run: ShepherdRun, key: str) -> float:
    """Start one task; return the seconds until it read the clock."""
    output = str(run.config.data_dir / "jobs" / key.partition("/")[0])
    run.launch(key, ["/bin/date", "+%s.%N"], user="ann", GRASS_OUTPUT=output)
    begun = time.time()
    run.start(key, key)
    run.ended(key)
    return float(run.stdout(key)) - begun


def main() -> int:
    with ShepherdRun() as plain, ShepherdRun(UIDS) as isolated:
        runs = {"without isolation": plain, "isolated": isolated}
        took: dict[str, list[float]] = {f"{name}, {kind}": [] for name in runs for kind in ("same job", "new job")}
        for run in runs.values():
            run.connect()
            once(run, "warm/a.0/1")
        for index in range(ROUNDS):
            for name, run in runs.items():
                time.sleep(0.05)
                took[f"{name}, same job"].append(once(run, f"warm/b.{index}/1"))
                took[f"{name}, new job"].append(once(run, f"j-{index}/a.0/1"))
    for entry in pwd.getpwall():
        if UIDS.first <= entry.pw_uid <= UIDS.last:
            subprocess.run(["userdel", entry.pw_name], check=True)
    print(f"load {os.getloadavg()[0]:.1f}, {ROUNDS} rounds:")
    for name, times in took.items():
        tenth, median = statistics.quantiles(times, n=10)[0], statistics.median(times)
        print(f"  {name}: p50 {1000 * median:.2f} ms, p10 {1000 * tenth:.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
