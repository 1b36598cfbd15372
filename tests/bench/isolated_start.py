"""Start of a process task by the shepherd, with and without isolation of users, in turns. As root; needs bubblewrap.

From the request to the first instruction of the task, for tasks of a job that runs already, and for the first task of
each job, for which a view is made. No peer.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from pathlib import Path

import figures

sys.path.insert(0, str(Path(__file__).parents[2]))

from grass.model.isolation import UidRange
from tests.support.shepherd_run import ShepherdRun

UIDS = UidRange(57_975, 57_976)
"""Apart from those of tests, which may run at the same time."""


def once(run: ShepherdRun, key: str) -> float:
    """Start one task; return the milliseconds until it read the clock."""
    output = str(run.config.data_dir / "jobs" / key.partition("/")[0])
    run.launch(key, ["/bin/date", "+%s.%N"], user="ann", GRASS_OUTPUT=output)
    begun = time.time()
    run.start(key, key)
    run.ended(key)
    return 1000 * (float(run.stdout(key)) - begun)


def remove_accounts() -> None:
    for entry in pwd.getpwall():
        if UIDS.first <= entry.pw_uid <= UIDS.last:
            subprocess.run(["userdel", entry.pw_name], check=True)


def main() -> None:
    options = figures.arguments(__doc__, rounds=60).parse_args()
    if os.geteuid() != 0:
        sys.exit("accounts are made and isolated tasks started by root only")
    try:
        with ShepherdRun() as plain, ShepherdRun(UIDS) as isolated:
            runs = {"isolated": isolated, "plain": plain}
            taken: dict[str, list[float]] = {f"{name}, {kind}": [] for kind in ("same job", "new job") for name in runs}
            for run in runs.values():
                run.connect()
                once(run, "warm/a.0/1")
            for index in range(options.rounds):
                for name, run in runs.items():
                    time.sleep(0.05)
                    taken[f"{name}, same job"].append(once(run, f"warm/b.{index}/1"))
                    taken[f"{name}, new job"].append(once(run, f"j-{index}/a.0/1"))
    finally:
        remove_accounts()
    found = [figures.Figure(name, samples, "ms") for name, samples in taken.items()]
    figures.report(
        options, "start of a task by the shepherd", found, "no bar; docs/adr/0022-isolated-users.md has earlier figures"
    )


if __name__ == "__main__":
    main()
