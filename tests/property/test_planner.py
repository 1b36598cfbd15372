"""Random clusters against a naive oracle: never over capacity, nothing idle that fits, every reason true."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grass.model.reasons import ReasonCode
from grass.model.resources import Resources
from master.planning.planner import plan
from master.planning.view import Demand, NodeView

AMOUNTS = st.builds(Resources, st.integers(0, 8).map(lambda n: n * 500), st.integers(0, 8), st.integers(0, 2))
NODES = st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=5)
DEMANDS = st.lists(st.tuples(AMOUNTS, st.integers(1, 6)), max_size=8)


@settings(max_examples=400, deadline=None)
@given(NODES, DEMANDS)
def test_a_plan_is_what_a_naive_oracle_allows(
    sizes: list[tuple[Resources, bool]], wants: list[tuple[Resources, int]]
) -> None:
    nodes = [NodeView(f"n{number}", size, size, ready) for number, (size, ready) in enumerate(sizes)]
    demands = [Demand(f"j{number}", "a", count, shape) for number, (shape, count) in enumerate(wants)]
    result = plan(nodes, demands)
    free = {node.name: [node.free.cpu, node.free.memory, node.free.gpu] for node in nodes if node.ready}
    for demand in demands:
        placed = 0
        for placement in result.placements:
            if placement.demand is demand:
                for _ in range(placement.count):
                    left = free[placement.node]
                    left[0] -= demand.shape.cpu
                    left[1] -= demand.shape.memory
                    left[2] -= demand.shape.gpu
                    assert min(left) >= 0, "over capacity"
                placed += placement.count
        could = any(
            left[0] >= demand.shape.cpu and left[1] >= demand.shape.memory and left[2] >= demand.shape.gpu
            for left in free.values()
        )
        assert placed <= demand.count
        assert placed == demand.count or not could, "left waiting although a node has room"
        reason = result.waiting.get((demand.job_id, "a"))
        assert (reason is None) == (placed == demand.count)
        if reason is not None and reason.code is ReasonCode.TOO_LARGE:
            assert not any(demand.shape.fits(node.total) for node in nodes), "it would fit an empty node"
