"""A node as witness: what it noted outlives it, and it knows nothing of the time before its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.errors import UndecodableError
from grass.model.witness import SILENT, Record
from grass.wire.witness import AskVote, MasterLives
from node.api.witness import FILE, WitnessDesk

LIVES, VOTE = MasterLives(2, 0, alone=False), AskVote(2, "10.0.0.2")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_vote_outlives_the_witness_and_binds_it(tmp_path: Path, clock: Clock) -> None:
    desk = WitnessDesk(tmp_path, clock)
    assert not desk.hear(LIVES).why
    clock.now += SILENT + 1
    assert not desk.vote(VOTE).why
    again = WitnessDesk(tmp_path, clock)
    assert again.hear(LIVES).why == "standby 10.0.0.2 has the vote and takes over"
    assert again.hear(MasterLives(2, 0, alone=True, change=True)).why == "standby 10.0.0.2 has the vote and takes over"
    assert not again.vote(VOTE).why, "its answer may have been lost"
    assert again.vote(AskVote(2, "10.0.0.3")).why == "standby 10.0.0.2 has the vote"
    assert again.hear(MasterLives(3, 0, alone=False)).record == Record(3), "the new master"
    assert again.hear(LIVES).why == "another master took over"


def test_a_witness_that_heard_of_the_master_or_has_just_started_gives_no_vote(tmp_path: Path, clock: Clock) -> None:
    desk = WitnessDesk(tmp_path, clock)
    assert desk.vote(VOTE).why == "the witness has never heard of this master"
    desk.hear(LIVES)
    clock.now += SILENT + 1
    assert WitnessDesk(tmp_path, clock).vote(VOTE).why.startswith("the witness heard of the master 0 s ago")
    assert not desk.vote(VOTE).why


def test_a_standby_of_a_master_that_goes_on_alone_gets_no_vote_until_they_are_together(
    tmp_path: Path, clock: Clock
) -> None:
    desk = WitnessDesk(tmp_path, clock)
    desk.hear(LIVES)
    assert desk.hear(MasterLives(2, 0, alone=True, change=True)).record == Record(2, 1, alone=True)
    clock.now += 100
    assert "went on alone" in desk.vote(VOTE).why
    assert desk.hear(MasterLives(2, 0, alone=False, change=True)).why, "a late call"
    assert not desk.hear(MasterLives(2, 1, alone=False, change=True)).why
    clock.now += 100
    assert not desk.vote(VOTE).why


def test_a_record_that_cannot_be_read_refuses_everything(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / FILE).write_text("{")
    clock.now += 100
    desk = WitnessDesk(tmp_path, clock)
    for ask in (lambda: desk.hear(LIVES), lambda: desk.vote(VOTE)):
        with pytest.raises(UndecodableError):
            ask()


def test_a_record_of_another_cluster_of_the_same_name_counts_for_nothing(tmp_path: Path, clock: Clock) -> None:
    before = WitnessDesk(tmp_path, clock, "before")
    before.hear(MasterLives(7, 0, alone=True))
    again = WitnessDesk(tmp_path, clock, "before")
    assert "another master took over" in again.hear(LIVES).why, "the living cluster's record"
    clock.now += SILENT + 1
    new = WitnessDesk(tmp_path, clock, "now")
    assert new.vote(AskVote(0, "10.0.0.2")).why == "the witness has never heard of this master"
    assert new.hear(MasterLives(0, 0, alone=False)).record == Record(0)
    clock.now += SILENT + 1
    assert not new.vote(AskVote(0, "10.0.0.2")).why
    assert WitnessDesk(tmp_path, clock, "now").hear(MasterLives(0, 0, alone=False)).record.voted == "10.0.0.2"


def test_a_record_that_names_no_cluster_counts_and_is_bound_by_its_next_change(tmp_path: Path, clock: Clock) -> None:
    """An earlier version wrote such a record; without a known key, each record counts."""
    (tmp_path / FILE).write_text('{"term":2,"version":4,"alone":true,"voted":""}')
    assert WitnessDesk(tmp_path, clock).hear(LIVES).record == Record(2, 4, alone=True)
    assert WitnessDesk(tmp_path, clock, "before").hear(MasterLives(2, 4, alone=False, change=True)).record.version == 5
    assert WitnessDesk(tmp_path, clock, "now").vote(VOTE).why == "the witness has never heard of this master"
    assert WitnessDesk(tmp_path, clock).hear(LIVES).record == Record(2, 5)
