"""Totals of attempts: sums over samples, exact at the end, shared energy, and nothing lost by a restart."""

from __future__ import annotations

import pytest

from grass.wire.usage import GpuUsage, TaskTotals
from node.agent.machine_usage import Interval
from node.agent.task_processes import Used
from node.agent.usage_ledger import GpuShare, UsageLedger
from node.runtime.protocol import Spent

KEY = "j-00000001/a.0/1"
ALL = Interval(2.0, 4.0, 100.0)
"""Two seconds of four busy core seconds and 100 joules."""
GPUS = {0: GpuUsage(id=0, utilisation=50, power=300.0), 1: GpuUsage(id=1, utilisation=100, power=400.0)}
NONE = GpuShare()


def test_rates_and_totals_of_a_running_task() -> None:
    ledger = UsageLedger()
    first = ledger.add(KEY, Used(1.0, 500, 2, 5, 4000, 2000), ALL, NONE, {}, 2.0)
    assert (first.cpu, first.memory, first.read, first.written, first.threads, first.files) == (
        0.5,
        500,
        2000,
        1000,
        2,
        5,
    )
    second = ledger.add(KEY, Used(4.0, 300, 1, 4, 4000, 2000), ALL, NONE, {}, 4.0)
    assert (second.cpu, second.memory, second.read) == (1.5, 300, 0)
    assert (second.totals.cpu, second.totals.memory, second.totals.read) == (4.0, 500, 4000)


def test_package_energy_is_shared_by_cpu_time() -> None:
    ledger = UsageLedger()
    sample = ledger.add(KEY, Used(1.0), ALL, NONE, {}, 2.0)
    assert sample.totals.energy == 25.0 and sample.power == 12.5 and not sample.totals.partial


def test_gpu_energy_and_time_are_shared_by_what_is_allocated() -> None:
    share = GpuShare(((0, 500), (1, 1000)), 7 << 30)
    sample = UsageLedger().add(KEY, Used(), ALL, share, GPUS, 2.0)
    assert sample.totals.energy == (150 + 400) * 2
    assert sample.totals.gpu == (0.25 + 1) * 2 and sample.totals.gpu_memory == 7 << 30
    assert sample.gpu == pytest.approx(100 * 1.25 / 1.5, abs=0.1) and sample.gpus == 1.25


@pytest.mark.parametrize(
    ("interval", "gpus"), [(Interval(2.0, 4.0, None), GPUS), (ALL, {0: GpuUsage(id=0, utilisation=5)}), (ALL, {})]
)
def test_energy_without_one_of_its_sources_is_partial(interval: Interval, gpus: dict[int, GpuUsage]) -> None:
    assert UsageLedger().add(KEY, Used(), interval, GpuShare(((0, 1000),)), gpus, 2.0).totals.partial


def test_a_short_attempt_has_the_kernels_totals() -> None:
    assert UsageLedger().close(KEY, Spent(0.25, 9000, 1, 2), 5.0) == TaskTotals(
        cpu=0.25, memory=9000, read=1, written=2, partial=True
    )


def test_the_end_adds_what_was_used_since_the_last_sample() -> None:
    ledger = UsageLedger()
    ledger.add(KEY, Used(1.0, 500), ALL, GpuShare(((1, 1000),)), GPUS, 2.0)
    ended = ledger.close(KEY, Spent(2.0, 400, 0, 10), 3.0)
    assert ended is not None
    assert (ended.cpu, ended.memory, ended.written, ended.gpu) == (2.0, 500, 10, 3.0)
    assert ended.energy == 25 + 800 + 25 + 400
    assert ledger.close(KEY, None, 99.0) == ended  # the event is repeated until the master takes it


def test_a_restarted_node_agent_continues_the_totals() -> None:
    before = UsageLedger()
    before.add(KEY, Used(10.0, 500), ALL, GpuShare(((1, 1000),)), GPUS, 2.0)
    after = UsageLedger(before.totals())
    sample = after.add(KEY, Used(11.0, 400), ALL, GpuShare(((1, 1000),)), GPUS, 50.0)
    assert (sample.totals.cpu, sample.totals.memory, sample.totals.gpu) == (11.0, 500, 4.0)


def test_what_the_master_noted_is_forgotten() -> None:
    ledger = UsageLedger({"old/a.0/1": TaskTotals(cpu=1)})
    ledger.close(KEY, Spent(1, 1, 1, 1), 1.0)
    ledger.keep_only([KEY])
    assert ledger.totals().keys() == {KEY}
    ledger.forget([KEY])
    assert ledger.totals() == {} and ledger.close(KEY, None, 1.0) is None


def test_counters_that_go_back_change_nothing() -> None:
    ledger = UsageLedger()
    ledger.add(KEY, Used(5.0, 1, 1, 1, 100, 100), ALL, NONE, {}, 2.0)
    sample = ledger.add(KEY, Used(1.0, 1, 1, 1, 10, 10), ALL, NONE, {}, 4.0)
    assert (sample.cpu, sample.read, sample.totals.cpu, sample.totals.read) == (0, 0, 5.0, 100)
