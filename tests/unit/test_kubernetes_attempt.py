"""What the runtime remembers of an attempt."""

from __future__ import annotations

import pytest

from grass.kubernetes.objects import Metadata, Pod
from grass.system import clock
from node.runtime.kubernetes.attempt import PodAttempt
from node.runtime.kubernetes.judge import wall

MADE = "2026-11-27T05:00:00Z"


@pytest.mark.parametrize(("age", "expected"), [(400.0, 400.0), (0.0, 0.0), (-1.0, 0.0)])
def test_patience_counts_from_the_creation_of_the_pod_by_the_server_s_clock(age: float, expected: float) -> None:
    made = wall(MADE)
    assert made is not None
    adopted = PodAttempt("j-1/a.0/1", "a", "g-a")
    adopted.update(Pod(Metadata(uid="u", creation_timestamp=MADE)), made + age)
    assert clock.steady() - adopted.asked == pytest.approx(expected, abs=5.0)
    adopted.update(Pod(Metadata(uid="u", creation_timestamp=MADE)), made + 9000.0)
    assert clock.steady() - adopted.asked == pytest.approx(expected, abs=5.0)


def test_without_the_server_s_clock_patience_counts_from_now() -> None:
    adopted = PodAttempt("j-1/a.0/1", "a", "g-a")
    adopted.update(Pod(Metadata(uid="u", creation_timestamp=MADE)), None)
    assert clock.steady() - adopted.asked < 5.0
