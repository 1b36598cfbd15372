"""The thread that reads the desired state of a node: what it does when applying it fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from grass.store.keys import Keys
from grass.store.node_store import Desired, NodeStore
from grass.wire.desired import DesiredChange
from node.agent.redis_threads import Changes
from tests.doubles.memory_backend import MemoryBackend


def test_a_failure_to_apply_is_reported_and_the_whole_state_is_applied_again() -> None:
    applied: list[Desired | DesiredChange] = []
    problems: list[str] = []
    good = threading.Event()

    def apply(arrived: Sequence[Desired | DesiredChange]) -> None:
        applied.extend(arrived)
        if len(applied) == 1:
            raise ZeroDivisionError("a defect")

    def unreadable(problem: str) -> None:
        problems.append(problem)
        if not problem:
            good.set()

    changes = Changes(NodeStore(MemoryBackend(), Keys("test:"), "n1"), apply, unreadable, again=0.01)
    changes.start()
    assert good.wait(10)
    changes.stop()
    assert problems == ["internal error: ZeroDivisionError: a defect", ""]
    assert [type(each) for each in applied[:2]] == [Desired, Desired]
