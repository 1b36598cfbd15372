"""What is learned from tasks that have ended: how long those of a component take, and that they use too much memory."""

from __future__ import annotations

import pytest

from grass.model.job import Component, Job
from grass.model.resources import Resources
from master.agent.component_run import MOST_SAMPLES, ComponentRun
from master.agent.durations import MOST_COMPONENTS, MOST_RUNS, Durations
from tests.support.world import World


def part(*seconds: float) -> ComponentRun:
    component = ComponentRun(Component("w", "x"), 1)
    for each in seconds:
        component.sample(each)
    return component


def test_nothing_is_expected_of_what_never_ran() -> None:
    known = Durations()
    known.note_end("ann", "train", 1.0, {"w": None})
    known.note_end("bob", "train", 1.0, {"w": 5.0})
    known.note_end("ann", "test", 1.0, {"w": 5.0})
    known.note_end("ann", "train", 1.0, {"other": 5.0})
    assert known.estimate("ann", "train", part()) is None


def test_twice_the_median_of_earlier_runs_is_expected_rounded_up_to_few_values() -> None:
    known = Durations()
    for ended, seconds in ((1.0, 30.0), (2.0, 32.0), (3.0, 900.0)):
        known.note_end("ann", "train", ended, {"w": seconds})
    assert known.estimate("ann", "train", part()) == 64.0
    known.note_end("ann", "train", 4.0, {"w": 33.0})
    assert known.estimate("ann", "train", part()) == 2**6.5
    assert Durations().estimate("ann", "x", part(0.001)) == 1.0


def test_three_tasks_of_the_run_itself_outweigh_all_earlier_runs() -> None:
    known = Durations()
    for ended in range(9):
        known.note_end("ann", "train", ended, {"w": 1000.0})
    assert known.estimate("ann", "train", part(4.0, 4.0)) == 2048.0
    assert known.estimate("ann", "train", part(4.0, 4.0, 4.0)) == 8.0


def test_only_the_newest_runs_and_tasks_count_whatever_the_order_in_which_they_are_read() -> None:
    known = Durations()
    for ended in reversed(range(3 * MOST_RUNS)):
        known.note_end("ann", "train", float(ended), {"w": 8.0 if ended >= 2 * MOST_RUNS else 1000.0})
    assert known.estimate("ann", "train", part()) == 16.0
    assert part(*[1000.0] * MOST_SAMPLES, *[2.0] * MOST_SAMPLES).typical == 2.0 and part().typical is None


def test_the_number_of_components_that_are_remembered_is_bounded() -> None:
    known = Durations()
    for number in range(MOST_COMPONENTS + 1):
        known.note_end("ann", f"job{number}", 1.0, {"w": 8.0})
    assert len(known.past) == MOST_COMPONENTS
    assert known.estimate("ann", "job0", part()) is None and known.estimate("ann", "job1", part()) == 16.0


@pytest.mark.parametrize(("asked", "used", "warns"), [(1000, 1600, True), (1000, 1400, False), (0, 10**12, False)])
def test_a_job_whose_tasks_use_far_more_memory_than_they_ask_for_has_one_warning(
    asked: int, used: int, warns: bool
) -> None:
    world = World()
    world.add_node("n1")
    task = Component("t", "x", replicas=2, resources=Resources(memory=asked << 20))
    world.submit(Job("j", {"t": task}, ("t",)))
    for index in (0, 1):
        world.end(f"j-1/t.{index}/1", usage={"memory": used << 20})
    found = world.job("j")["warnings"]
    assert len(found) == warns
    if warns:
        assert found[0].startswith("t: its tasks use more memory than they ask for")
        assert "t.0 used 1.562GiB of 1000MiB; raise `memory`" in found[0]
