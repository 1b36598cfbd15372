"""A master, its standby and a node with cuts and a kill at any moment: an acknowledged write is never lost unknowingly.

Everything runs on one clock that the processes do not see: they only measure durations.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from grass.provision.on_premises.failover_check import LIVES, Evidence, judged
from grass.store.standby_gate import AGAIN, StandbyGate

TICK = 0.25
HEARTBEAT = 2.0
WORLDS = 20_000
WHAT = ("write", "write", "write", "cut", "heal", "node-cut", "node-heal")
Steps = list[tuple[str, int]]
"""What happens, and for how many ticks nothing else does."""


@dataclass
class World:
    """A log is a list of writes; the replica's is a beginning of the master's."""

    needed: bool
    now: float = 0.0
    master: list[str] = field(default_factory=list)
    replica: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    waiting: list[tuple[str, int, float]] = field(default_factory=list)
    linked: bool = True
    node_linked: bool = True
    node_since: float = 0.0
    heard: float = 0.0
    node_heard: float = 0.0
    looks: float | None = None
    count: int = 0

    def __post_init__(self) -> None:
        self.gate = StandbyGate(needed=self.needed)

    def write(self) -> None:
        self.count += 1
        name = f"w{self.count}"
        self.master.append(name)
        if self.gate.patience:
            self.waiting.append((name, len(self.master), self.now + self.gate.patience))
        else:
            self.acknowledged.append(name)
        self.replicate()

    def replicate(self) -> None:
        if self.linked:
            self.replica = list(self.master)
            self.heard = self.now

    def tick(self) -> None:
        self.now += TICK
        self.replicate()
        if self.node_linked and self.now - self.node_heard >= HEARTBEAT:
            self.node_heard = self.now
        for name, offset, until in list(self.waiting):
            has = len(self.replica) >= offset
            if has or self.now >= until:
                self.waiting.remove((name, offset, until))
                if has or self.gate.missed(self.note_alone, self.look_again):
                    self.acknowledged.append(name)
        if self.looks is not None and self.now >= self.looks:
            self.looks = self.now + AGAIN
            if self.linked:
                self.gate.back(lambda: self.master.append("together"))
                self.looks = None

    def note_alone(self) -> bool:
        self.master.append("alone")
        return True

    def look_again(self) -> None:
        self.looks = self.now + AGAIN

    def step(self, what: str) -> None:
        match what:
            case "write":
                self.write()
            case "cut":
                self.linked = False
            case "heal":
                self.linked = True
            case "node-cut":
                self.node_linked = False
            case "node-heal":
                self.node_linked, self.node_since = True, self.now

    def alone(self) -> bool:
        marks = [each for each in self.replica if each in ("alone", "together")]
        return bool(marks) and marks[-1] == "alone"


def steps_of(number: int) -> Steps:
    chosen = random.Random(number)
    return [(chosen.choice(WHAT), chosen.choice([0, 1, 2, 3, 18])) for _ in range(chosen.randint(1, 12))]


def ran(steps: Steps, *, needed: bool = False) -> World:
    world = World(needed)
    for what, ticks in steps:
        world.step(what)
        for _ in range(ticks):
            world.tick()
    return world


def verdict_after(world: World, seconds: float) -> str:
    """The master ends now; the failover comes later."""
    now = world.now + seconds
    silent, heard = now - world.heard, [now - world.node_heard]
    return judged(Evidence(True, world.needed, alone=world.alone(), silent=silent, heard=heard)).why


def test_no_acknowledged_write_is_lost_by_a_failover_without_force() -> None:
    lost = 0
    for number in range(WORLDS):
        world = ran(steps_of(number))
        if not world.node_linked or world.now - world.node_since < HEARTBEAT:
            continue  # this node cannot tell how long the master went on
        lacks = set(world.acknowledged) - set(world.replica)
        lost += bool(lacks)
        assert not lacks or verdict_after(world, 50), (number, steps_of(number), lacks)
    assert lost > 100, "the worlds are too quiet to show anything"


def test_a_failover_needs_no_force_if_the_standby_was_there() -> None:
    for number in range(WORLDS // 10):
        world = ran([*steps_of(number), ("heal", 40)])
        assert not verdict_after(world, LIVES + 1)


def test_a_master_that_needs_its_standby_acknowledges_nothing_alone() -> None:
    for number in range(WORLDS // 10):
        world = ran(steps_of(number), needed=True)
        assert set(world.acknowledged) <= set(world.replica)
