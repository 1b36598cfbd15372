"""The picture in the guide is what the planner does."""

from __future__ import annotations

from pathlib import Path

from grass.model.job import NODE_LEVEL, Policy
from grass.model.resources import Resources
from master.planning.decide import decide
from master.planning.model import Demand, Node, QueuedJob, Shape, Snapshot

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "sharing.md"

NODES = [
    Node("n1", Resources(8000, 32 << 30), Resources(3000, 28 << 30), path=("rack1",)),
    Node("n2", Resources(8000, 32 << 30), Resources(5000, 6 << 30), path=("rack1",)),
    Node("n3", Resources(8000, 32 << 30), Resources(8000, 32 << 30), path=("rack2",)),
    Node("n4", Resources(16000, 64 << 30), Resources(12000, 60 << 30), path=("rack2",)),
]


def drawn(policy: Policy = Policy.BEST_FIT, spread: int | None = None, pack: int | None = None) -> list[str]:
    """Six tasks of one core and 1 GiB, a mark for each."""
    demand = Demand("x", 6, Shape(Resources(1000, 1 << 30)), spread, pack)
    plan = decide(Snapshot(NODES, [QueuedJob("job", "ann", 1, (demand,), policy=policy)]))
    counts = {node.name: 0 for node in NODES}
    for placement in plan.placements:
        counts[placement.node] += placement.count
    return ["■" * count or "·" for count in counts.values()]


def test_the_picture_of_the_policies_is_what_the_planner_does() -> None:
    page = PAGE.read_text(encoding="utf-8")
    pictures = {
        "place: best-fit": drawn(),
        "place: {policy: single-metric-balanced, metric: cpu}": drawn(Policy.BALANCED),
        "place: {policy: single-metric-compacted, metric: cpu}": drawn(Policy.COMPACTED),
        "spread: node": drawn(spread=NODE_LEVEL),
        "spread: 1": drawn(spread=1),
        "pack: node": drawn(pack=NODE_LEVEL),
        "pack: 1": drawn(pack=1),
    }
    for key, marks in pictures.items():
        [line] = [line for line in page.splitlines() if line.startswith(f"{key} ")]
        assert line.removeprefix(key).split() == marks, key
