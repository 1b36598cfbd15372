"""Totals of attempts: sums over samples, exact at the end, shared energy, and nothing lost by a restart."""

from __future__ import annotations

import pytest

from grass.wire.usage import TaskTotals
from node.agent.gpu_usage import Metered
from node.agent.machine_usage import Interval
from node.agent.task_processes import Used
from node.agent.usage_ledger import TaskGpus, UsageLedger
from node.runtime.shepherd_messages import Spent

KEY = "j-00000001/a.0/1"
ALL = Interval(2.0, 4.0, 100.0)
"""Two seconds of four busy core seconds and 100 joules."""
NONE = TaskGpus()


def gpus(*devices: tuple[int, int], at: float = 2.0, since: float = 0.0, memory: int | None = None) -> TaskGpus:
    """A half busy device 0 at 300 W, and a busy one at 400 W, which are read every 2 seconds, first at 0."""
    found = {0: Metered(0.0), 1: Metered(0.0)}
    while found[0].at < at:
        end = found[0].at + 2
        found = {0: found[0].next(end, 300.0, 0.5), 1: found[1].next(end, 400.0, 1.0)}
    return TaskGpus(devices, since, found, memory)


def test_rates_and_totals_of_a_running_task() -> None:
    ledger = UsageLedger()
    first = ledger.add(KEY, Used(1.0, 500, 2, 5, 4000, 2000), ALL, NONE)
    assert (first.cpu, first.memory, first.read, first.written, first.threads, first.files) == (
        0.5,
        500,
        2000,
        1000,
        2,
        5,
    )
    second = ledger.add(KEY, Used(4.0, 300, 1, 4, 4000, 2000), ALL, NONE)
    assert (second.cpu, second.memory, second.read) == (1.5, 300, 0)
    assert (second.totals.cpu, second.totals.memory, second.totals.read) == (4.0, 500, 4000)


def test_totals_have_milliseconds_and_no_more_digits() -> None:
    sample = UsageLedger().add(KEY, Used(1.23456), ALL, NONE)
    assert (sample.totals.cpu, sample.cpu, sample.totals.energy) == (1.235, 0.617, 30.864)


def test_package_energy_is_shared_by_cpu_time() -> None:
    ledger = UsageLedger()
    sample = ledger.add(KEY, Used(1.0), ALL, NONE)
    assert sample.totals.energy == 25.0 and sample.power == 12.5 and not sample.totals.partial


def test_gpu_energy_and_time_are_shared_by_what_is_allocated() -> None:
    sample = UsageLedger().add(KEY, Used(), ALL, gpus((0, 500), (1, 1000), memory=7 << 30))
    assert sample.totals.energy == (150 + 400) * 2
    assert sample.totals.gpu == (0.25 + 1) * 2 and sample.totals.gpu_memory == 7 << 30
    assert sample.gpu == pytest.approx(100 * 1.25 / 1.5, abs=0.1) and sample.gpus == 1.25


@pytest.mark.parametrize(
    ("interval", "devices"),
    [
        (Interval(2.0, 4.0, None), gpus((0, 1000))),
        (ALL, TaskGpus(((0, 1000),), 0.0, {0: Metered(0.0).next(2.0, None, 0.05)})),
        (ALL, TaskGpus(((0, 1000),))),
    ],
)
def test_energy_without_one_of_its_sources_is_partial(interval: Interval, devices: TaskGpus) -> None:
    assert UsageLedger().add(KEY, Used(), interval, devices).totals.partial


def test_a_short_attempt_has_the_kernels_totals_and_its_part_of_the_gpu() -> None:
    spent = Spent(0.25, 9000, 1, 2)
    expected = TaskTotals(cpu=0.25, memory=9000, read=1, written=2, partial=True)
    assert UsageLedger().close(KEY, spent, NONE, 5.0) == expected
    before_and_after_the_reading = UsageLedger().close(KEY, spent, gpus((1, 500), since=1.5), 3.0)
    assert before_and_after_the_reading is not None
    assert (before_and_after_the_reading.gpu, before_and_after_the_reading.energy) == (0.75, 300.0)
    after_it = UsageLedger().close(KEY, spent, gpus((1, 1000), since=2.5), 3.0)
    assert after_it is not None and (after_it.gpu, after_it.energy) == (0.5, 200.0)


def test_between_two_readings_the_mean_of_both_is_assumed() -> None:
    idle = Metered(0.0).next(2.0, 100.0, 0.0)
    both = idle.next(4.0, 700.0, 1.0)
    assert (both.joules - idle.joules, both.kernel_seconds) == (800.0, 1.0)
    by_the_counter = idle.next(4.0, 700.0, 1.0, 900.0)
    assert by_the_counter.joules - idle.joules == 900.0 and by_the_counter.last == (900.0, 1.0)


def test_a_reading_counts_once_and_none_is_left_out_whenever_samples_are_taken() -> None:
    ledger = UsageLedger()
    for at in (2.0, 2.0, 4.0, 8.0):
        sample = ledger.add(KEY, Used(), Interval(2.0, 4.0, None), gpus((1, 1000), at=at, since=1.0))
    assert (sample.totals.gpu, sample.totals.energy, sample.power) == (7.0, 2800.0, 400.0)
    ended = ledger.close(KEY, None, gpus((1, 1000), at=8.0, since=1.0), 9.5)
    assert ended is not None and (ended.gpu, ended.energy) == (8.5, 3400.0)


def test_the_end_adds_what_was_used_since_the_last_sample() -> None:
    ledger = UsageLedger()
    ledger.add(KEY, Used(1.0, 500), ALL, gpus((1, 1000)))
    ended = ledger.close(KEY, Spent(2.0, 400, 0, 10), gpus((1, 1000)), 3.0)
    assert ended is not None
    assert (ended.cpu, ended.memory, ended.written, ended.gpu) == (2.0, 500, 10, 3.0)
    assert ended.energy == 25 + 800 + 25 + 400
    assert ledger.close(KEY, None, NONE, 99.0) == ended  # the event is repeated until the master takes it


def test_a_restarted_node_agent_continues_the_totals() -> None:
    before = UsageLedger()
    before.add(KEY, Used(10.0, 500), ALL, gpus((1, 1000)))
    after = UsageLedger(before.totals())
    sample = after.add(KEY, Used(11.0, 400), ALL, gpus((1, 1000)))
    assert (sample.totals.cpu, sample.totals.memory, sample.totals.gpu) == (11.0, 500, 4.0)


def test_what_the_master_noted_is_forgotten() -> None:
    ledger = UsageLedger({"old/a.0/1": TaskTotals(cpu=1)})
    ledger.close(KEY, Spent(1, 1, 1, 1), NONE, 1.0)
    ledger.keep_only([KEY])
    assert ledger.totals().keys() == {KEY}
    ledger.forget([KEY])
    assert ledger.totals() == {} and ledger.close(KEY, None, NONE, 1.0) is None


def test_counters_that_go_back_change_nothing() -> None:
    ledger = UsageLedger()
    ledger.add(KEY, Used(5.0, 1, 1, 1, 100, 100), ALL, NONE)
    sample = ledger.add(KEY, Used(1.0, 1, 1, 1, 10, 10), ALL, NONE)
    assert (sample.cpu, sample.read, sample.totals.cpu, sample.totals.read) == (0, 0, 5.0, 100)
