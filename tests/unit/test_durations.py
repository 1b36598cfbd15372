"""What is learned of how long tasks take: estimates of components, from their own tasks and from earlier runs."""

from __future__ import annotations

from grass.model.job import Component
from master.agent.component_run import MOST_SAMPLES, ComponentRun
from master.agent.durations import MOST_COMPONENTS, MOST_RUNS, Durations


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
