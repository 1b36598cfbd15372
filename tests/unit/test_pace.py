"""How long change streams rest, so that they cost the server little."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from master.api.pace import ALONE, LONGEST, SHORTEST, TOGETHER, Pace


def test_a_cheap_piece_is_followed_by_the_shortest_rest_and_no_rest_is_endless() -> None:
    assert Pace().rest(0.0) == SHORTEST
    assert Pace().rest(60.0) == LONGEST


@pytest.mark.parametrize("streams", [1, 2, 10])
def test_streams_use_no_more_than_their_share_together(streams: int) -> None:
    pace, cost = Pace(), 0.02
    with ExitStack() as stack:
        for _ in range(streams):
            stack.enter_context(pace.running())
        used = cost / pace.rest(cost)
        assert used <= ALONE + 1e-9 and used * streams <= TOGETHER + 1e-9
    assert pace.rest(cost) == cost / ALONE
