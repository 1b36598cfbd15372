"""`grass run -- true` as a cold process, from its start to its end. Floor: Python's own start."""

from __future__ import annotations

import sys

import figures
from job_list import wall
from local_cluster import GRASS, LocalCluster

RUN = [GRASS, "run", "--", "true"]


def main() -> None:
    options = figures.arguments(__doc__, rounds=20).parse_args()
    ours: list[float] = []
    floor: list[float] = []
    with LocalCluster():
        wall(RUN)
        for _ in range(options.rounds):
            ours.append(wall(RUN))
            floor.append(wall([sys.executable, "-c", "pass"]))
    grass, python = figures.Figure("grass run -- true", ours, "ms"), figures.Figure("python -c pass", floor, "ms")
    beyond = [max(0.0, mine - 1.5 * own) for mine, own in zip(ours, floor, strict=True)]
    above = figures.Figure("beyond 1.5 × python", beyond, "ms")
    figures.report(
        options, "`grass run -- true`, end to end", [grass, python, above], "at most 150 ms beyond 1.5 × python"
    )


if __name__ == "__main__":
    main()
