"""What a cluster has cost by list price, from what was seen of it: hours of each machine, disk and address. Pure.

A meter runs while its thing is paid. Used by ``grass.provision.azure`` and
``grass.provision.aks``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from grass.wire.cloud import CloudCost, CloudCosts

_HOUR = 3600.0


@dataclass(frozen=True)
class Meter:
    """One thing that is paid by the hour. ``what``: a size of machines, or a word. ``hourly`` None: not known.

    ``since``: wall time from which it is paid; None: it is not now. ``hours`` and ``dollars``: before that.
    """

    what: str
    hourly: float | None
    since: float | None = None
    hours: float = 0.0
    dollars: float = 0.0

    def hours_until(self, now: float) -> float:
        return self.hours + (0.0 if self.since is None else max(0.0, now - self.since) / _HOUR)

    def dollars_until(self, now: float) -> float | None:
        """Return what it has cost; None: its price is not known."""
        if self.hourly is None:
            return None if self.hours_until(now) else 0.0
        return self.dollars + self.hourly * (self.hours_until(now) - self.hours)

    def closed(self, now: float) -> Meter:
        return replace(self, since=None, hours=self.hours_until(now), dollars=self.dollars_until(now) or 0.0)


@dataclass(frozen=True)
class Paid:
    """A thing that is paid now. ``since``: wall time, if it is known when that began."""

    what: str
    hourly: float | None
    since: float | None = None


@dataclass(frozen=True)
class Ledger:
    """Meters by what they belong to, as ``MACHINE/PART``. ``begun``: wall time of the first."""

    begun: float
    meters: dict[str, Meter] = field(default_factory=dict)


def read(ledger: Ledger, seen: Mapping[str, Paid], now: float) -> Ledger:
    """Return the meters after a look at what is paid now. What began or ended since the last look is counted from, or
    until, now, unless it is known better."""
    meters = {key: meter if key in seen else meter.closed(now) for key, meter in ledger.meters.items()}
    for key, paid in seen.items():
        before = meters.get(key)
        if before is None:
            begun = now if paid.since is None else min(now, max(ledger.begun, paid.since))
            meters[key] = Meter(paid.what, paid.hourly, begun)
        elif before.since is None:
            meters[key] = replace(before, what=paid.what, hourly=paid.hourly, since=now)
        elif paid.hourly is not None and (before.what, before.hourly) != (paid.what, paid.hourly):
            meters[key] = replace(before.closed(now), what=paid.what, hourly=paid.hourly, since=now)
    return replace(ledger, meters=meters)


def machines(ledger: Ledger) -> list[str]:
    return sorted({key.partition("/")[0] for key in ledger.meters})


def of_machine(ledger: Ledger, machine: str) -> Iterator[Meter]:
    yield from (meter for key, meter in ledger.meters.items() if key.partition("/")[0] == machine)


def hourly(meters: Iterator[Meter]) -> float | None:
    """Return what those that are paid now cost; None: a price is not known."""
    prices = [meter.hourly for meter in meters if meter.since is not None]
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


def spent(meters: Iterator[Meter], now: float) -> tuple[float, bool]:
    """Return what they have cost, and whether that is all: the price of each is known."""
    costs = [meter.dollars_until(now) for meter in meters]
    return sum(cost for cost in costs if cost is not None), None not in costs


def costs(ledger: Ledger, states: Mapping[str, str], now: float, limits: tuple[str, ...]) -> CloudCosts:
    """Return what all machines cost. ``states``: of those that exist, by name, where they are known."""
    return CloudCosts(ledger.begun, now, tuple(_cost(ledger, name, states, now) for name in machines(ledger)), limits)


def _cost(ledger: Ledger, name: str, states: Mapping[str, str], now: float) -> CloudCost:
    machine = ledger.meters.get(f"{name}/machine")
    paid = [each for each in of_machine(ledger, name) if each.since is not None]
    what, hours = (machine.what, machine.hours_until(now)) if machine else ("", 0.0)
    state = states.get(name) or ("exists" if paid else "removed")
    return CloudCost(name, what, state, hours, hourly(iter(paid)), *spent(of_machine(ledger, name), now))
