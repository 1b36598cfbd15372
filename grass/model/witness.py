"""The rules of a witness: when a master may go on without its standby, and when that takes over by itself. Pure.

There are three machines. A write counts if the standby has it, or if the witness has noted that the master goes on
alone. With such a note, the witness never gives the standby its vote. So a standby that takes over has all that counts,
whatever the clocks do. Durations only keep the two from deciding at the same time, each measured by one machine.
``tests/property/test_witness.py`` simulates these rules. Used by ``grass.wire.witness`` and ``node.api.witness``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

LEASE = 5.0
"""Seconds, by the master's clock, within which the standby must have confirmed a write, from when it was sent."""
SILENT = 5.0
"""Seconds for which the standby has not heard of the master before it stops following, and for which the witness has
not before it gives its vote."""
LEFT = 8.0
"""Seconds between the moment at which the standby stops following, and its call for the vote. More than ``LEASE`` where
one clock is 10 % fast and the other 10 % slow: the master has stopped by then."""


@dataclass(frozen=True)
class Record:
    """What a witness keeps on its disk.

    ``term``: of the store that the master and its standby share; each failover makes the next. -1: no master was heard
    yet. ``version``: counts changes of ``alone``. ``alone``: the master may acknowledge what the standby has not.
    ``voted``: the standby that may take over; empty: none."""

    term: int = -1
    version: int = 0
    alone: bool = False
    voted: str = ""


@dataclass(frozen=True)
class Answer:
    """What a witness answers. The record is on its disk by then. ``why``: why not; empty: yes."""

    record: Record
    why: str = ""


def heard(record: Record, term: int, version: int, *, alone: bool) -> Answer:
    """A master shows that it lives. ``version``, ``alone``: as it knows them, for a witness that does not know them."""
    if term < record.term:
        return Answer(record, "another master took over")
    if term > record.term:
        return Answer(Record(term, version, alone))
    if record.voted:
        return Answer(record, f"standby {record.voted} has the vote and takes over")
    return Answer(record)


def changed(record: Record, term: int, version: int, *, alone: bool) -> Answer:
    """A master wants to go on alone, or waits for its standby again. ``version``: that of the record which it knows: a
    call that was delayed changes nothing any more."""
    if record.term != term or record.voted:
        return Answer(record, heard(record, term, version, alone=alone).why or "the witness does not know this master")
    if record.version != version:
        return Answer(record, "the witness knows something newer; ask again")
    if record.alone is alone:
        return Answer(record)
    return Answer(replace(record, version=version + 1, alone=alone))


def vote(record: Record, term: int, standby: str, silent: float) -> Answer:
    """A standby wants to take over. ``silent``: seconds since the witness heard of the master, or since it started."""
    if term < record.term:
        return Answer(record, "another master took over")
    if term > record.term:
        return Answer(record, "the witness has never heard of this master")
    if record.voted:
        return Answer(record, "" if record.voted == standby else f"standby {record.voted} has the vote")
    if record.alone:
        return Answer(record, "the master went on alone: the standby lacks what was acknowledged since")
    if silent <= SILENT:
        return Answer(record, f"the witness heard of the master {silent:.0f} s ago, so it lives; stop it")
    return Answer(replace(record, voted=standby))


def counts(sent: float, now: float, *, confirmed: bool, consent: bool) -> bool:
    """Return whether a master may acknowledge a write now. Times are those of its clock. ``consent``: the witness has
    noted that it goes on alone."""
    return consent or (confirmed and now - sent < LEASE)


class Next(Enum):
    """What a standby does next."""

    FOLLOW = "follow"
    LEAVE = "stop following"
    ASK = "ask for the vote"


def next_of(now: float, heard_at: float, left_at: float | None, *, whole: bool) -> Next:
    """Return what a standby does, by its own clock. ``heard_at``: when it heard of the master last, or began to listen.
    ``left_at``: when it stopped following; None: it follows. ``whole``: it had everything since its redis started, and
    has it on its disk."""
    if left_at is None:
        return Next.LEAVE if whole and now - heard_at > SILENT else Next.FOLLOW
    return Next.ASK if now - left_at > LEFT else Next.LEAVE
