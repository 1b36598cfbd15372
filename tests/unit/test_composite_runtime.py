from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator

import pytest

from node.runtime.composite import PATIENCE, CompositeRuntime
from node.runtime.protocol import Launch, Listed, Observed, Start, Stop
from tests.doubles.simulated_runtime import SimulatedRuntime

PLAIN = Launch(["x"], {}, None, 5.0)


class Pair:
    """Two simulated runtimes behind one; their attempts go on until they are stopped."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.process = SimulatedRuntime(lambda _: (1000.0, 0))
        self.docker = SimulatedRuntime(lambda _: (1000.0, 0))
        self.composite = CompositeRuntime({"process": self.process, "docker": self.docker}, patience)
        self.composite.define({"j-1/p": PLAIN, "j-1/d": PLAIN._replace(runtime="docker")})
        self.lists: list[Listed] = []
        self.known: dict[str, Observed] = {}

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, self.known
            select.select([self.composite], [], [], 0.01)
            for each in self.composite.receive():
                if isinstance(each, Listed):
                    self.lists.append(each)
                elif isinstance(each, Observed):
                    self.known[each.key] = each


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.composite.close()


def test_each_launch_goes_to_its_runtime_and_all_are_listed_together(pair: Pair) -> None:
    pair.wait(lambda: len(pair.lists) == 1)
    pair.composite.start([Start("j-1/p.0/1", "j-1/p", {}), Start("j-1/d.0/1", "j-1/d", {})])
    pair.wait(lambda: len(pair.known) == 2)
    pair.docker.restart()
    pair.wait(lambda: len(pair.lists) == 2)
    assert {attempt.key for attempt in pair.lists[-1].attempts} == {"j-1/p.0/1", "j-1/d.0/1"}
    pair.composite.stop([Stop("j-1/d.0/1", 1.0)])
    pair.wait(lambda: pair.known["j-1/d.0/1"].ended is not None)
    assert pair.known["j-1/p.0/1"].ended is None
    pair.composite.forget(["j-1/d.0/1"])
    pair.process.restart()
    pair.wait(lambda: len(pair.lists) == 3)
    assert [attempt.key for attempt in pair.lists[-1].attempts] == ["j-1/p.0/1"]


def test_one_that_does_not_answer_holds_the_others_up_for_a_while_only() -> None:
    began = time.monotonic()
    pair = Pair(patience=0.1)
    pair.docker._news.clear()
    pair.wait(lambda: len(pair.lists) == 1)
    assert time.monotonic() - began >= 0.1
    pair.composite.start([Start("j-1/p.0/1", "j-1/p", {})])
    pair.wait(lambda: "j-1/p.0/1" in pair.known)
    pair.docker.restart()
    pair.wait(lambda: len(pair.lists) == 2)
    assert [attempt.key for attempt in pair.lists[-1].attempts] == ["j-1/p.0/1"]
    pair.composite.close()
