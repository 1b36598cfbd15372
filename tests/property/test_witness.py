"""A master, its standby and a witness, with anything that happens to machines and links: two masters never decide.

Each machine has a clock of its own speed. A message may be late, or lost; a process may stop for any time, or end. The
rules under test are those of ``grass.model.witness``; each of the broken ones below must be found out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from grass.model import witness
from grass.model.witness import SILENT, Answer, Next, Record
from grass.store.standby_gate import PATIENCE
from tests.support.examples import chosen

TICK = 0.25
WORLDS = 20_000
TERM = 3
TIMEOUT = 2.0
KEEPER = 1.0
FIRST_LOG = 6.0
MACHINES = ("master", "standby", "witness")
PAIRS = (("master", "standby"), ("master", "witness"), ("standby", "witness"))


@dataclass(frozen=True)
class Rules:
    changed: Callable[..., Answer] = witness.changed
    vote: Callable[..., Answer] = witness.vote
    counts: Callable[..., bool] = witness.counts
    next_of: Callable[..., Next] = witness.next_of


@dataclass
class Machine:
    """``inbox``: what arrived and was not read yet. ``since``: when it started, by its clock."""

    speed: float
    up: bool = True
    paused: bool = False
    since: float = 0.0
    inbox: list[tuple[Any, ...]] = field(default_factory=list)


@dataclass
class Master(Machine):
    """``log``, ``consent``, ``version``: on its disk. The rest is memory."""

    log: list[str] = field(default_factory=list)
    consent: bool = False
    version: int = 0
    waiting: list[tuple[str, int, float]] = field(default_factory=list)
    confirmed: int = 0
    confirmed_at: float = 0.0
    call: tuple[int, float, bool | None] | None = None
    witness_alone: bool = False
    looked: float = 0.0
    stopped: bool = False


@dataclass
class Standby(Machine):
    """``on_disk``: how much of the master's log is on its disk. ``log``: what it began with as master."""

    has: int = 0
    on_disk: int = 0
    copies_until: float | None = None
    heard: float = 0.0
    left: float | None = None
    call: tuple[int, float] | None = None
    began: float | None = None
    elected: bool = False
    log: frozenset[str] = frozenset()


@dataclass
class Witness(Machine):
    record: Record = field(default_factory=Record)
    heard: float = 0.0


class World:
    def __init__(self, number: int, rules: Rules) -> None:
        self.rules, self.dice = rules, random.Random(number)
        speeds = [self.dice.choice((0.9, 1.0, 1.1)) for _ in MACHINES]
        self.master, self.standby, self.witness = Master(speeds[0]), Standby(speeds[1]), Witness(speeds[2])
        self.now, self.count, self.link = 0.0, 0, 0
        self.cut: set[tuple[str, ...]] = set()
        self.wire: list[tuple[float, str, str, tuple[Any, ...]]] = []
        self.acknowledged: list[tuple[float, str]] = []
        for _ in range(40):
            self.tick()

    def clock(self, machine: Machine) -> float:
        return self.now * machine.speed

    def send(self, source: str, target: str, *message: Any) -> None:
        self.wire.append((self.now + self.dice.choice((TICK, TICK, 2 * TICK)), source, target, message))

    def tick(self) -> None:
        self.now += TICK
        kept = []
        for at, source, target, message in self.wire:
            machine: Machine = getattr(self, target)
            if at > self.now:
                kept.append((at, source, target, message))
            elif (source, target) in self.cut or (target, source) in self.cut:
                if self.dice.random() < 0.5:  # sent again, when the link may be back
                    kept.append((self.now + self.dice.choice((0.5, 3.0, 12.0)), source, target, message))
            elif machine.up:
                machine.inbox.append(message)
        self.wire = kept
        for name in MACHINES:
            machine = getattr(self, name)
            if machine.up and not machine.paused:
                inbox, machine.inbox = machine.inbox, []
                getattr(self, f"run_{name}")(inbox)

    def run_master(self, inbox: list[tuple[Any, ...]]) -> None:
        me, now = self.master, self.clock(self.master)
        for kind, *rest in inbox:
            match kind:
                case "write":
                    self.count += 1
                    me.log.append(f"w{self.count}")
                    me.waiting.append((me.log[-1], len(me.log), now))
                case "has":
                    me.confirmed, me.confirmed_at = max(me.confirmed, rest[0]), max(me.confirmed_at, rest[1])
                case "answer" if me.call is not None and me.call[0] == rest[0]:
                    self.answered(rest[1], me.call[2])
                    me.call = None
        for write in list(me.waiting):
            name, length, sent = write
            confirmed = me.confirmed >= length
            if confirmed or me.consent or now - sent >= PATIENCE:
                me.waiting.remove(write)
                if not me.stopped and self.rules.counts(sent, now, confirmed=confirmed, consent=me.consent):
                    self.acknowledged.append((self.now, name))
        self.send("master", "standby", "log", len(me.log), now, self.link)
        if now - me.looked >= KEEPER and not me.stopped:
            me.looked = now
            self.keep(now)

    def keep(self, now: float) -> None:
        """The part of the master that speaks with the witness: one call at a time."""
        me = self.master
        if me.call is not None and now - me.call[1] < TIMEOUT:
            return
        together = now - me.confirmed_at < TIMEOUT
        wanted: bool | None = None
        if not me.consent and not together:
            wanted = True
        elif together and (me.consent or me.witness_alone) and me.confirmed == len(me.log):
            me.consent, wanted = False, False
        number = self.dice.getrandbits(40)
        me.call = (number, now, wanted)
        if wanted is None:
            self.send("master", "witness", "lives", number, me.version, me.consent)
        else:
            self.send("master", "witness", "change", number, me.version, wanted)

    def answered(self, answer: Answer, wanted: bool | None) -> None:
        me = self.master
        if answer.record.term == TERM:
            me.version, me.witness_alone = answer.record.version, answer.record.alone
            me.stopped = bool(answer.record.voted)
            if wanted and not answer.why:
                me.consent = True

    def run_witness(self, inbox: list[tuple[Any, ...]]) -> None:
        me, now = self.witness, self.clock(self.witness)
        for kind, number, *rest in inbox:
            match kind:
                case "lives":
                    found, back = witness.heard(me.record, TERM, rest[0], alone=rest[1]), "master"
                    me.heard = now
                case "change":
                    found, back = self.rules.changed(me.record, TERM, rest[0], alone=rest[1]), "master"
                    me.heard = now
                case _:
                    found, back = self.rules.vote(me.record, TERM, "s", now - me.heard), "standby"
            me.record = found.record
            self.send("witness", back, "answer", number, found)

    def run_standby(self, inbox: list[tuple[Any, ...]]) -> None:
        me, now = self.standby, self.clock(self.standby)
        if me.began is not None:
            return
        self.read_standby(inbox, now)
        whole = me.copies_until is not None and now >= me.copies_until
        if whole:
            me.on_disk = me.has
        if me.elected:
            me.began, me.log = self.now, frozenset(self.master.log[: me.on_disk])
        elif me.call is None:
            self.decide(now, whole)
        elif now - me.call[1] >= TIMEOUT:
            self.follow(now)

    def follow(self, now: float) -> None:
        """Open a new connection. What was under way in one before is never read."""
        me = self.standby
        me.call, me.left, me.heard = None, None, now
        self.link += 1

    def read_standby(self, inbox: list[tuple[Any, ...]], now: float) -> None:
        me = self.standby
        for kind, *rest in inbox:
            match kind:
                case "log" if me.left is None and rest[2] == self.link:
                    if me.copies_until is None:
                        me.copies_until = now + FIRST_LOG
                    me.has, me.heard = max(me.has, rest[0]), now
                    self.send("standby", "master", "has", rest[0], rest[1])
                case "answer" if me.call is not None and me.call[0] == rest[0]:
                    me.elected = not rest[1].why
                    if not me.elected:
                        self.follow(now)

    def decide(self, now: float, whole: bool) -> None:
        me = self.standby
        match self.rules.next_of(now, me.heard, me.left, whole=whole):
            case Next.LEAVE if me.left is None:
                me.left = now
            case Next.ASK:
                me.left = now if me.left is None else me.left
                me.call = (self.dice.getrandbits(40), now)
                self.send("standby", "witness", "vote", me.call[0])

    def kill(self, name: str) -> None:
        machine: Machine = getattr(self, name)
        machine.up, machine.paused, machine.inbox = False, False, []

    def start(self, name: str) -> None:
        machine: Machine = getattr(self, name)
        if machine.up:
            return
        now = self.clock(machine)
        machine.up = True
        match machine:
            case Master():
                machine.waiting, machine.confirmed, machine.call = [], 0, None
                machine.confirmed_at, machine.stopped = now - TIMEOUT, False
            case Standby():
                machine.has, machine.copies_until = machine.on_disk, None
                self.follow(now)
            case Witness():
                machine.heard = now

    def step(self, what: str) -> None:
        if what == "write":
            if self.master.up:
                self.master.inbox.append(("write",))
        elif what in ("cut", "heal"):
            pair = self.dice.choice(PAIRS)
            self.cut = self.cut | {pair} if what == "cut" else self.cut - {pair}
        elif what == "apart":  # the master is cut off from both
            self.cut = {("master", "standby"), ("master", "witness")}
        elif what == "whole":
            self.cut = set()
        elif what == "power":  # all lose it; the master does not come back
            for name in MACHINES:
                self.kill(name)
            self.start("standby")
            self.start("witness")
        else:
            self.happen(what, self.dice.choice(MACHINES))

    def happen(self, what: str, name: str) -> None:
        machine: Machine = getattr(self, name)
        match what:
            case "kill":
                self.kill(name)
            case "reboot":
                self.kill(name)
                self.start(name)
            case "start":
                self.start(name)
            case "pause":
                machine.paused = machine.up
            case _:
                machine.paused = False


WHAT = (
    ["write"] * 8
    + ["cut"] * 3
    + ["heal"] * 2
    + ["apart", "whole", "power", "kill", "reboot", "start", "start", "pause", "go", "go"]
)


def lived(number: int, rules: Rules) -> World:
    world = World(number, rules)
    for _ in range(world.dice.randint(2, 14)):
        world.step(world.dice.choice(WHAT))
        for _ in range(world.dice.choice((0, 1, 2, 4, 9, 20, 70))):
            world.tick()
    for _ in range(70):
        world.tick()
    return world


def fault(world: World) -> str:
    """Return what is wrong; empty: nothing."""
    began = world.standby.began
    if began is None:
        return ""
    if late := [name for at, name in world.acknowledged if at >= began]:
        return f"the old master acknowledged {late} when there was another"
    if lost := [name for _, name in world.acknowledged if name not in world.standby.log]:
        return f"{lost} were acknowledged, and the new master lacks them"
    return ""


def test_two_masters_never_acknowledge_and_nothing_acknowledged_is_lost() -> None:
    took_over, alone = 0, 0
    for number in range(chosen(WORLDS) // 2):
        world = lived(number, Rules())
        took_over += world.standby.began is not None
        alone += world.master.consent
        assert not fault(world), (number, fault(world))
    assert took_over > 100 and alone > 100, "the worlds are too quiet to show anything"


def gives_its_vote_to_whoever_asks(record: Record, term: int, standby: str, silent: float) -> Answer:
    return Answer(replace(record, voted=standby))


def forgets_its_vote(record: Record, term: int, version: int, *, alone: bool) -> Answer:
    return witness.changed(replace(record, voted=""), term, version, alone=alone)


def knows_no_lease(sent: float, now: float, *, confirmed: bool, consent: bool) -> bool:
    return confirmed or consent


def goes_on_without_consent(sent: float, now: float, *, confirmed: bool, consent: bool) -> bool:
    return True


def forgets_what_it_lost(now: float, heard_at: float, left_at: float | None, *, whole: bool) -> Next:
    return witness.next_of(now, heard_at, left_at, whole=True)


@pytest.mark.parametrize(
    "broken",
    [
        Rules(vote=gives_its_vote_to_whoever_asks),
        Rules(changed=forgets_its_vote),
        Rules(counts=knows_no_lease),
        Rules(counts=goes_on_without_consent),
        Rules(next_of=forgets_what_it_lost),
    ],
    ids=["any vote", "forgotten vote", "no lease", "no consent", "not whole"],
)
def test_a_broken_rule_is_found_out(broken: Rules) -> None:
    assert any(fault(lived(number, broken)) for number in range(WORLDS))


def test_a_standby_waits_longer_than_the_lease_of_a_slow_master_by_its_fast_clock() -> None:
    assert witness.LEFT / 1.1 > witness.LEASE / 0.9 and PATIENCE < witness.LEASE


def test_a_late_call_changes_nothing() -> None:
    alone = witness.changed(Record(TERM), TERM, 0, alone=True).record
    assert alone == Record(TERM, 1, alone=True)
    late = witness.changed(alone, TERM, 0, alone=False)
    assert late.why and late.record == alone


def test_a_witness_that_lost_its_disk_learns_from_the_master_that_it_is_alone() -> None:
    assert witness.vote(Record(), TERM, "s", 100.0).why == "the witness has never heard of this master"
    assert witness.heard(Record(), TERM, 4, alone=True).record == Record(TERM, 4, alone=True)


def test_a_standby_takes_over_from_a_master_that_lost_its_power() -> None:
    for number in range(100):
        world = World(number, Rules())
        world.kill("master")
        for _ in range(100):
            world.tick()
        assert world.standby.began is not None and world.standby.began < 10 + SILENT / 0.9 + witness.LEFT / 0.9 + 4


def test_a_standby_that_is_cut_from_a_living_master_does_not_take_over() -> None:
    for number in range(100):
        world = World(number, Rules())
        world.cut = {("master", "standby")}
        for _ in range(200):
            world.tick()
        assert world.standby.began is None and world.master.consent
        world.cut = set()
        for _ in range(60):
            world.tick()
        assert not world.master.consent and not world.witness.record.alone, "together again"
