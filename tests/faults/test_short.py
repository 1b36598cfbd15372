"""The short form of the matrix in every run: each daemon is killed in the middle of what needs it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.faults import table
from tests.faults.local_bed import LocalBed, local_bed
from tests.faults.local_faults import INJECTED, bed_for
from tests.faults.runner import run_round

CELLS: dict[str, tuple[str, ...]] = {
    "redis killed": (table.STARTING, table.QUEUED, table.STOPPING),
    "collector killed": (table.STARTING, table.LOGS),
    "shepherd killed": (table.STARTING, table.RUNNING, table.STOPPING),
    "guard killed": (table.STARTING,),
    "monitor killed": (table.STARTING,),
    "master-agent killed": (table.STARTING, table.SCALING, table.QUEUED),
    "master-api-server killed": (table.STARTING, table.EXEC),
    "node-agent killed": (table.STARTING, table.SCALING, table.LOGS),
    "node-api-server killed": (table.STARTING, table.EXEC),
    "all daemons killed at once": (table.STARTING, table.RUNNING),
    "tail of redis' log cut": (table.RUNNING, table.QUEUED),
}
ALONE = {"supervisord killed": (table.STARTING, table.RUNNING)}
"""The daemons look for supervisord: beside other tests, they may have no time to start it soon enough."""
ROUNDS = itertools.count(1)


@pytest.fixture(scope="module")
def bed() -> Iterator[LocalBed]:
    with local_bed() as made:
        yield made


@pytest.mark.parametrize(
    ("name", "states"),
    [*CELLS.items(), *(pytest.param(*cell, marks=pytest.mark.alone) for cell in ALONE.items())],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_matrix_promises_holds(name: str, states: tuple[str, ...], bed: LocalBed) -> None:
    judged = run_round(bed, table.FAULTS[name], states, INJECTED[name], next(ROUNDS))
    assert {state: wrong for state, (_, wrong) in judged.items() if wrong} == {}


def test_a_clock_that_jumps_an_hour_changes_nothing() -> None:
    """On a cluster of its own: its daemons run under libfaketime."""
    fault = table.FAULTS["clock + 1 h"]
    with bed_for(fault.name) as bed:
        judged = run_round(bed, fault, (table.STARTING, table.RUNNING), INJECTED[fault.name], next(ROUNDS))
    assert {state: wrong for state, (_, wrong) in judged.items() if wrong} == {}


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_the_whole_matrix_holds() -> None:
    from tests.faults.__main__ import run

    assert run(table.chosen(""), keep=False) == []
