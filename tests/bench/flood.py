"""How long `job start` of one user takes while another user submits jobs as fast as the target says: 10,000 a minute.

The flooding user has as many connections as given, in a process of their own. The jobs of both ask for more CPUs than
there are, so they stay queued.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from figures import Figure, arguments, quantile, report
from local_cluster import GRASS, LocalCluster, one_task, run

from grass.api.client import Client
from grass.errors import GrassError

PAUSE = 0.1
"""Seconds between two submissions of the measured user."""


def job(name: str) -> dict[str, Any]:
    wide = one_task(name, ["true"])
    wide["components"]["task"]["resources"]["cpu"] = 4096
    return wide


def flood(home: str, until: float, connections: int, pause: float) -> tuple[int, int]:
    """Submit on each connection, at most every ``pause`` seconds. Return how many were accepted and refused."""
    accepted, refused = [0] * connections, [0] * connections

    def submit(number: int) -> None:
        with closing(Client("flooded", home=Path(home))) as client:
            turn, begun = 0, time.monotonic()
            while time.monotonic() < until:
                try:
                    client.start(job(f"flood-{number}-{turn}"))
                    accepted[number] += 1
                except GrassError:
                    refused[number] += 1
                turn += 1
                time.sleep(max(0.0, begun + turn * pause - time.monotonic()))

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(accepted), sum(refused)


def starts(client: Client, name: str, seconds: float) -> list[float]:
    """Return the milliseconds that each of several submissions took."""
    until, taken = time.monotonic() + seconds, []
    while not taken or time.monotonic() < until:
        begun = time.monotonic()
        client.start(job(f"{name}-{len(taken)}"))
        taken.append((time.monotonic() - begun) * 1000)
        time.sleep(PAUSE)
    return taken


def main() -> None:
    if sys.argv[1:2] == ["--flood"]:
        home, seconds, connections, pause = sys.argv[2:]
        print(*flood(home, time.monotonic() + float(seconds), int(connections), float(pause)))
        return
    parser = arguments(__doc__, 1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--per-minute", type=float, default=10_000.0)
    chosen = parser.parse_args()
    with LocalCluster() as cluster:
        invitation = json.loads(run("user", "add", "flooder", "-o", "json"))["invitation"]
        home = cluster.folder / "flooder"
        login = [GRASS, "login", invitation, "--name", "flooded"]
        subprocess.run(login, env={**os.environ, "GRASS_HOME": str(home)}, check=True, capture_output=True)
        alone = starts(cluster.client, "alone", min(10.0, chosen.seconds))
        pause = chosen.connections * 60.0 / chosen.per_minute
        command = [sys.executable, __file__, "--flood", home, chosen.seconds, chosen.connections, pause]
        with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True) as attack:
            flooded = starts(cluster.client, "flooded", chosen.seconds)
            said = attack.communicate()[0].split()
        accepted, refused = (float(number) for number in said)
    figures = [
        Figure("job start, alone", alone, "ms"),
        Figure("job start, flooded", flooded, "ms"),
        Figure("job start, flooded, p99", [quantile(flooded, 0.99)], "ms"),
        Figure("submissions of the other", [accepted * 60.0 / chosen.seconds], "/min"),
        Figure("given up after 5 s", [refused], ""),
    ]
    report(chosen, "job start while another user submits jobs", figures, "p99 below 1 s at 10,000 /min, none given up")


if __name__ == "__main__":
    main()
