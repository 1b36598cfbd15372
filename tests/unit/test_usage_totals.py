"""Totals of attempts become totals of their task and job, once."""

from msgspec.json import decode, encode

from grass.wire.usage import TaskTotals


def test_totals_together_are_sums_and_the_higher_peaks() -> None:
    first = TaskTotals(cpu=1.5, memory=100, gpu=2, gpu_memory=7, read=1, written=2, energy=10)
    second = TaskTotals(cpu=2, memory=50, gpu=1, gpu_memory=9, read=3, written=4, energy=5, partial=True, unmeasured=1)
    both = TaskTotals(
        cpu=3.5, memory=100, gpu=3, gpu_memory=9, read=4, written=6, energy=15, partial=True, unmeasured=1
    )
    assert first.plus(second) == both == second.plus(first)


def test_totals_stay_finite_whatever_a_node_reports() -> None:
    much = TaskTotals(cpu=1.7e308, gpu=-1.7e308, energy=1.7e308, read=2**64)
    assert decode(encode(much.plus(much)), type=TaskTotals) == much.plus(much)
