"""Which of several agents acts for a node."""

from __future__ import annotations

from grass.kubernetes.objects import Lease, LeaseSpec, Metadata
from node.runtime.kubernetes.claim import Claim, Step, Times

TIMES = Times(15.0, 10.0, 2.0)


def lease(holder: str | None, version: int = 1, seconds: int = 15) -> Lease:
    spec = LeaseSpec(holder, seconds, renew_time="1999-01-01T00:00:00.000000Z")
    return Lease(Metadata(resource_version=str(version)), spec)


def claim() -> Claim:
    return Claim("me", TIMES)


def test_a_free_lease_is_taken_and_a_held_one_is_waited_for() -> None:
    assert claim().next(None, 0.0) is Step.CREATE
    assert claim().next(lease(""), 0.0) is Step.TAKE
    assert claim().next(lease(None), 0.0) is Step.TAKE
    assert claim().next(lease("other"), 0.0) is Step.WAIT


def test_a_holder_is_gone_once_its_lease_has_not_changed_for_its_duration_whatever_its_clock_says() -> None:
    mine = claim()
    assert mine.next(lease("other", 1), 100.0) is Step.WAIT
    assert mine.next(lease("other", 1), 114.0) is Step.WAIT
    assert mine.next(lease("other", 2), 114.5) is Step.WAIT
    assert mine.next(lease("other", 2), 129.0) is Step.WAIT
    assert mine.next(lease("other", 2), 129.5) is Step.TAKE
    assert mine.next(lease("third", 3, seconds=60), 130.0) is Step.WAIT
    assert mine.next(lease("third", 3, seconds=60), 150.0) is Step.WAIT


def test_an_agent_that_follows_a_killed_one_in_its_folder_goes_on_at_once() -> None:
    assert claim().next(lease("me"), 0.0) is Step.RENEW


def test_an_agent_whose_lease_ran_out_goes_on_only_if_nobody_else_had_it() -> None:
    mine = claim()
    mine.renewed(0.0)
    assert mine.next(lease("me", 1), 1000.0) is Step.RENEW
    assert mine.next(lease("other", 2), 1000.0) is Step.ANEW
    assert mine.next(lease("", 3), 1000.0) is Step.ANEW


def test_no_request_begins_late_in_a_claim_and_none_may_outlast_it() -> None:
    mine = claim()
    assert mine.left(0.0) == 0.0
    mine.renewed(100.0)
    assert mine.left(100.0) == 15.0
    assert mine.left(109.0) == 6.0
    assert mine.left(110.1) == 0.0
    mine.renewed(120.0)
    assert mine.left(121.0) == 14.0
