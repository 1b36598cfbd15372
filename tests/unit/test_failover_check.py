"""Whether a standby may become the master: what the standby, the old master and the nodes tell decides."""

from __future__ import annotations

import pytest

from grass.provision.on_premises.failover_check import LIVES, Evidence, Verdict, judged


def test_a_standby_that_has_all_of_a_stopped_master_may() -> None:
    assert judged(Evidence(whole=True, needed=False, reached=True)) == Verdict()


def test_a_standby_that_lacks_writes_of_a_stopped_master_says_how_many() -> None:
    found = judged(Evidence(whole=True, needed=False, reached=False, missing=120, silent=9.0))
    assert found.why == "it lacks the last 120 bytes of the master's writes" and found.behind == 9.0 and found.possible


def test_a_standby_without_all_data_never_may() -> None:
    assert not judged(Evidence(whole=False, needed=True, reached=True)).possible


def test_a_master_that_ended_when_the_standby_last_heard_of_it_acknowledged_nothing_alone() -> None:
    assert judged(Evidence(whole=True, needed=False, silent=30.0, heard=[31.0, 29.5])) == Verdict()


def test_a_master_that_a_node_heard_later_went_on_alone() -> None:
    found = judged(Evidence(whole=True, needed=False, silent=300.0, heard=[290.0, 20.0]))
    assert found.why.startswith("it is 280 s behind") and found.behind == 280.0


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (Evidence(whole=True, needed=False), "it was restarted since"),
        (Evidence(whole=True, needed=False, silent=30.0), "no node could be asked"),
        (Evidence(whole=True, needed=False, alone=True, silent=30.0, heard=[30.0]), "it was catching up"),
        (Evidence(whole=True, needed=False, silent=30.0, heard=[LIVES / 2]), "so it lives"),
        (Evidence(whole=True, needed=True, silent=30.0, heard=[LIVES / 2]), "so it lives"),
    ],
)
def test_what_nobody_knows_needs_force(evidence: Evidence, said: str) -> None:
    found = judged(evidence)
    assert said in found.why and found.possible


def test_a_master_that_needs_its_standby_is_never_ahead_of_it() -> None:
    assert judged(Evidence(whole=True, needed=True)) == Verdict()
