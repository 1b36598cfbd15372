"""The bench that needs hosts runs and prints its figures; the others are in ``tests/integration/test_benches.py``."""

from __future__ import annotations

from tests.support.bench_run import figures
from tests.support.lab import SessionLab


def test_the_bench_of_joining_nodes_prints_its_figures(lab: SessionLab) -> None:
    for host in ("master", "n1"):
        lab.reset(host)
    found = figures("node_add", "--rounds", "1", "--nodes", "1", seconds=300, GRASS_LAB=lab.name)
    assert [(figure["name"], figure["unit"], len(figure["samples"])) for figure in found] == [("one", "s", 1)]
