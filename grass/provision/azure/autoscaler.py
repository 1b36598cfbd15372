"""`grass autoscale` on Azure: looks at what waits and what is idle, decides, and starts, makes or stops nodes.

It runs on a user's machine, with the login of the user, until it is interrupted, or on the master. What it does is what
`grass node start`, `scale` and `stop` do. The state is read anew with each look, so it may end and begin again at any
time. Used by ``provisioner``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from grass.azure.autoscale import Decision, Kind, Money, Need, Seen, decide, is_of
from grass.azure.faults import AzureCapacityError, AzureQuotaError, AzureSizeError
from grass.errors import ConflictError, GrassError, InputError, NotAllowedError
from grass.manifest.azure_autoscale import Autoscale, Rule
from grass.model.lifecycle import NodeState
from grass.model.resources import Resources
from grass.provision.azure.lease import Lease
from grass.provision.azure.record import Asked
from grass.provision.provisioner import Powered, Scaled
from grass.system.private_file import write_private
from grass.wire.cloud import CloudCosts
from grass.wire.codec import Form, indented

FILE = "azure-autoscale.json"
EVERY = 15.0
AFTER_AN_ERROR = 60.0
"""Seconds between two looks."""
_COSTS_EVERY = 300.0
_NOT_TO_BE_HAD = frozenset({AzureCapacityError.code, AzureQuotaError.code, AzureSizeError.code})


@dataclass(frozen=True)
class NodeNow:
    """A node as the cluster sees it. ``open``: it takes tasks."""

    state: NodeState
    tasks: int
    open: bool
    capacity: Resources | None


@dataclass(frozen=True)
class World:
    """What is seen and done. ``machines``: those that Grass made, by name. ``scale``: to a total of one rule."""

    machines: Callable[[], Mapping[str, Asked]]
    nodes: Callable[[], Mapping[str, NodeNow]]
    needs: Callable[[], Sequence[Need]]
    costs: Callable[[], CloudCosts]
    start: Callable[[Sequence[str]], Sequence[Powered]]
    stop: Callable[[Sequence[str]], Sequence[Powered]]
    scale: Callable[[Rule, int], Scaled]
    say: Callable[[str], None]
    steady: Callable[[], float]
    wall: Callable[[], float]
    tell: Callable[[CloudCosts], None] = lambda costs: None
    """Tells the master what the machines cost, for the dashboard."""


@dataclass(frozen=True)
class Day:
    """The day whose money is counted. ``spent``: dollars of the cluster before this day, as seen first on it."""

    date: str
    spent: float


_DAY: Form[Day] = Form(Day)


@dataclass
class Autoscaler:
    """Rules at work. ``folder``: of the cluster. ``idle``: since when nodes have no task; ``blocked``: until when rules
    are left out."""

    policy: Autoscale
    kinds: Mapping[Rule, Kind]
    world: World
    folder: Path
    idle: dict[str, float] = field(default_factory=dict)
    blocked: dict[Rule, float] = field(default_factory=dict)
    _told: list[str] = field(default_factory=list)
    _next_costs: float = 0.0

    def look(self) -> Decision:
        """Decide from what is there now, and do it. Raises GrassError: the cluster or Azure does not answer."""
        now = self.world.steady()
        machines, nodes = self.world.machines(), self.world.nodes()
        seen = [self._seen(name, asked, nodes[name], now) for name, asked in machines.items() if name in nodes]
        lost = [name for name in machines if name not in nodes]
        money = self._money() if self.policy.most_a_day is not None else Money()
        blocked = frozenset(rule for rule, until in self.blocked.items() if until > now)
        found = decide(self.policy, seen, self.world.needs(), self.kinds, money, blocked)
        found.said += [f"{name}: is no node; `grass node remove {name}` ends what it may cost" for name in lost]
        if found.said != self._told:  # what cannot be helped is said once
            self._told = found.said
            for line in found.said:
                self.world.say(line)
        self._do(found, seen)
        return found

    def tell_costs(self) -> None:
        """Tell what the machines cost, now and then: it needs a look at all of them."""
        now = self.world.steady()
        if now >= self._next_costs:
            self._next_costs = now + _COSTS_EVERY
            self.world.tell(self.world.costs())

    def _do(self, found: Decision, seen: Sequence[Seen]) -> None:
        if found.start:
            for started in self.world.start(found.start):
                self._ended(next(node for node in seen if node.name == started.name), started)
        for rule, count in found.make.items():
            total = sum(is_of(node, rule) for node in seen) + count
            try:
                failed = [(one.code, one.error) for one in self.world.scale(rule, total).nodes if one.error is not None]
            except InputError as error:  # the quota does not allow it
                failed = [(AzureQuotaError.code, str(error))]
            for code, text in failed:
                self._failed([rule], code, str(text))
        if found.stop:
            for stopped in self.world.stop(found.stop):
                if stopped.error is not None:
                    self.world.say(f"{stopped.name}: not stopped: {stopped.error}")

    def _ended(self, node: Seen, started: Powered) -> None:
        if started.error is not None:
            self._failed([rule for rule in self.policy.rules if is_of(node, rule)], started.code, started.error)

    def _failed(self, rules: Sequence[Rule], code: str, error: str) -> None:
        self.world.say(error)
        if code in _NOT_TO_BE_HAD:
            self.blocked |= {rule: self.world.steady() + self.policy.cooldown for rule in rules}

    def _seen(self, name: str, asked: Asked, node: NodeNow, now: float) -> Seen:
        free = node.state is NodeState.READY and node.open and not node.tasks
        self.idle = {**self.idle, name: self.idle.get(name, now)} if free else _without(self.idle, name)
        idle = now - self.idle[name] if free else None
        if asked.stopped and node.state is NodeState.DRAINED:
            idle = math.inf  # stopping it was interrupted
        alike = next((kind.capacity for rule, kind in self.kinds.items() if rule.size == asked.size), Resources())
        on = node.state is not NodeState.STOPPED
        return Seen(name, asked.size, asked.counts_as_spot, on, node.capacity or alike, idle)

    def _money(self) -> Money:
        costs = self.world.costs()
        total = sum(each.spent for each in costs.machines)
        hourly = sum(each.hourly or 0.0 for each in costs.machines)
        today = datetime.fromtimestamp(self.world.wall(), timezone.utc).date().isoformat()
        day = self._day()
        if day is None or day.date != today:
            day = Day(today, total)
            write_private(self.folder / FILE, indented(day))
        return Money(total - day.spent, hourly)

    def _day(self) -> Day | None:
        try:
            return _DAY.decode((self.folder / FILE).read_bytes())
        except FileNotFoundError:
            return None


def run(scaler: Autoscaler, sleep: Callable[[float], None], lease: Lease, *, once: bool) -> None:
    """Look again and again, while nobody else does. Raises NotAllowedError: nobody is signed in, or a right is missing;
    with ``once`` ConflictError: somebody else does it."""
    waits_for = ""
    while True:
        wait = EVERY
        try:
            other = lease.taken_by()
            if other and once:
                raise ConflictError(f"{other} starts and stops nodes by itself; one does it at a time")
            if other and other != waits_for:
                scaler.world.say(f"{other} starts and stops nodes by itself; this begins once that has ended")
            waits_for = other
            if not other:
                with lease.kept():
                    scaler.look()
                    lease.problem = ""
                    scaler.tell_costs()
        except (NotAllowedError, InputError):
            raise
        except GrassError as error:
            if once:
                raise
            scaler.world.say(f"{error}; looking again in {AFTER_AN_ERROR:g} s")
            wait = AFTER_AN_ERROR
        if once:
            return
        sleep(wait)


def _without(idle: dict[str, float], name: str) -> dict[str, float]:
    return {each: since for each, since in idle.items() if each != name}
