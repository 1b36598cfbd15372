"""Decides which nodes of a cluster on Azure are started, made and stopped, so that idle ones cost little. Pure.

A task that waits for resources gets a machine of the cheapest size on which it fits, a stopped one before a new one. A
node without tasks is stopped after a while. Used by ``grass.provision.azure``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grass.manifest.azure_autoscale import Autoscale, Rule
from grass.model.resources import Resources

FIRST_HOUR = 1.0
"""Hours that must be left of the day's money for a machine to be started."""


@dataclass(frozen=True)
class Seen:
    """A node. ``on``: it is not STOPPED. ``idle``: seconds without a task; None: it has tasks, or takes none."""

    name: str
    size: str
    spot: bool
    on: bool
    capacity: Resources
    idle: float | None = None


@dataclass(frozen=True)
class Need:
    """Tasks of one component that wait for resources. ``each``: what one needs."""

    label: str
    each: Resources
    count: int


@dataclass(frozen=True)
class Kind:
    """A machine of one size. ``capacity``: of an empty node. ``hourly`` None: its price is not known."""

    capacity: Resources
    hourly: float | None


@dataclass(frozen=True)
class Money:
    """Dollars by list price: spent since midnight (UTC), and what is on now for an hour."""

    spent: float = 0.0
    hourly: float = 0.0


@dataclass
class Decision:
    """``start`` and ``stop``: names. ``make``: rule → how many new nodes. ``said``: why, for people."""

    start: list[str] = field(default_factory=list)
    make: dict[Rule, int] = field(default_factory=dict)
    stop: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def decide(
    policy: Autoscale,
    nodes: Sequence[Seen],
    needs: Sequence[Need],
    kinds: Mapping[Rule, Kind],
    money: Money = Money(),
    blocked: frozenset[Rule] = frozenset(),
) -> Decision:
    """``blocked``: rules whose machines could not be had a while ago."""
    found = Decision()
    rest = list(needs)
    rules = sorted(policy.rules, key=lambda rule: (_price(kinds, rule), policy.rules.index(rule)))
    hourly = money.hourly
    for rule in rules:
        alike = [node for node in nodes if is_of(node, rule)]
        if blind := next((node.name for node in alike if node.capacity.gpu < kinds[rule].capacity.gpu), None):
            found.said.append(f"{_what(rule)}: no more are started or made, as {blind} does not see all of its GPUs")
            continue
        off = [node.name for node in alike if not node.on]
        on = len(alike) - len(off)
        while on < rule.max and rule not in blocked:
            least = on < rule.min
            served = next((need for need in rest if _fits(need.each, kinds[rule].capacity)), None)
            if served is None and not least:
                break
            if not _affordable(policy, money.spent, hourly + (kinds[rule].hourly or 0.0)):
                found.said.append(f"{_what(rule)}: not started; today's limit of ${policy.most_a_day:g} is used up")
                break
            hourly += kinds[rule].hourly or 0.0
            why = f"{served.label} waits" if served else f"at least {rule.min} are wanted"
            if off:
                found.start.append(off.pop(0))
                found.said.append(f"{found.start[-1]}: starts, as {why}")
            else:
                found.make[rule] = found.make.get(rule, 0) + 1
                found.said.append(f"{_what(rule)}: one more is made, as {why}")
            rest = _unserved(rest, kinds[rule].capacity)
            on += 1
    for rule in rules:
        _stops(policy, rule, nodes, needs, money, found)
    return found


def is_of(node: Seen, rule: Rule) -> bool:
    return (node.size.lower(), node.spot) == (rule.size.lower(), rule.spot)


def _stops(
    policy: Autoscale, rule: Rule, nodes: Sequence[Seen], needs: Sequence[Need], money: Money, found: Decision
) -> None:
    """Stop nodes that are idle, the longest first; after the limit of the day at once."""
    out_of_money = policy.most_a_day is not None and money.spent >= policy.most_a_day
    on = [node for node in nodes if is_of(node, rule) and node.on]
    idle = sorted((node for node in on if node.idle is not None), key=lambda node: -(node.idle or 0.0))
    left = len(on)
    for node in idle:
        long = (node.idle or 0.0) >= rule.idle
        if left <= rule.min and not out_of_money:
            return
        if not (long or out_of_money) or any(_fits(need.each, node.capacity) for need in needs):
            continue
        left -= 1
        found.stop.append(node.name)
        why = "it is idle" if long else "the money of this day is used up"
        found.said.append(f"{node.name}: stops; {why}")


def _unserved(needs: Sequence[Need], room: Resources) -> list[Need]:
    """Return what is left of the needs, once tasks are put on an empty node as long as they fit."""
    free, left = room, []
    for need in needs:
        count = need.count
        while count and _fits(need.each, free):
            free, count = free - need.each, count - 1
        left += [Need(need.label, need.each, count)] if count else []
    return left


def _fits(each: Resources, room: Resources) -> bool:
    return all(amount <= room.amounts().get(name, 0) for name, amount in each.amounts().items())


def _affordable(policy: Autoscale, spent: float, hourly: float) -> bool:
    return policy.most_a_day is None or spent + hourly * FIRST_HOUR <= policy.most_a_day


def _price(kinds: Mapping[Rule, Kind], rule: Rule) -> float:
    hourly = kinds[rule].hourly
    return float("inf") if hourly is None else hourly


def _what(rule: Rule) -> str:
    return f"{rule.size}{' Spot' if rule.spot else ''}"
