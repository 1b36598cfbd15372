"""What a cluster on Azure needs, leaves and costs, as text. Pure: it knows only facts.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from grass.azure.catalogue import Price, Size
from grass.azure.finder import Fit, obstacles, quotas_of
from grass.azure.resources import WORDS, Kind, Wanted, is_ours
from grass.manifest.azure import AzureSettings, Cloud, Nat
from grass.manifest.document import Document
from grass.provision.azure.look import Costs, Facts, addresses_left

NO_PROMISE = "a plan promises no machine: Azure says only when a machine is made whether there is one left"
_SHOWN = 6
"""Sizes that are named at most."""


def plan_lines(
    settings: AzureSettings, facts: Facts, wanted: Sequence[Wanted], sources: Sequence[str], id: str
) -> Iterator[str]:
    cloud, machine = settings.cloud, settings.machine
    yield f"subscription {facts.subscription.name} ({facts.subscription.id}), region {cloud.location}"
    for namespace in facts.unregistered:
        yield f"{namespace}: is registered for the subscription first (minutes, once)"
    for each in wanted:
        there = facts.found.get(each.kind)
        if there is not None and not is_ours(there, id):
            state = "exists, and is used as it is"
        else:
            state = "exists" if there is not None else "is made"
        yield f"{each.label}: {state}{_detail(each.kind, settings, facts, sources)}"
    if Kind.MACHINE not in facts.found:
        yield from _quota_lines(settings, facts)
    yield from cost_lines(facts.costs, machine.size)
    yield NO_PROMISE


def problems(settings: AzureSettings, facts: Facts, id: str) -> list[str]:
    """Return what keeps the cluster from being made, each with its path in the file."""
    return list(_problems(settings, facts, id))


def _problems(settings: AzureSettings, facts: Facts, id: str) -> Iterator[str]:
    cloud, machine, found = settings.cloud, settings.machine, facts.found
    yield from place_problems(cloud, found.get(Kind.GROUP), facts.allowed, id)
    for kind, each in found.items():
        if kind is not Kind.GROUP and not is_ours(each, id):
            yield f"name: {WORDS[kind]} {each.get('name')} exists in {cloud.resource_group}, and Grass did not make it"
    yield from _other_way_out(settings, found)
    if Kind.MACHINE in found:
        return
    size = facts.size(machine.size)
    if size is None:
        yield f"master.size: Azure has no {machine.size} in {cloud.location}"
    else:
        yield from (f"master.size: {each}" for each in obstacles(size, facts.region.quotas, machine.zone))
    yield from _too_few_addresses(settings, facts)


def place_problems(cloud: Cloud, group: Document | None, allowed: frozenset[str] | None, id: str) -> Iterator[str]:
    """Yield why nothing can be made in this group and region. ``allowed``: regions that policies name, if known."""
    if group is not None and not is_ours(group, id):
        if not cloud.use_existing_group:
            yield (
                f"cloud.resource_group: {cloud.resource_group} exists, and not for this cluster; choose another name, "
                "or set `use_existing_group: true` to make the cluster beside what is in it"
            )
    elif group is not None and group.get("location") != cloud.location:
        there = group.get("location")
        yield f"cloud.location: the group {cloud.resource_group} was made in {there}; delete the cluster first"
    if allowed is not None and cloud.location not in allowed:
        listed = ", ".join(sorted(allowed)) or "none"
        yield f"cloud.location: a policy of the subscription allows the regions {listed}, not {cloud.location}"


def _other_way_out(settings: AzureSettings, found: Mapping[Kind, Document]) -> Iterator[str]:
    nat = settings.nat is Nat.GATEWAY
    if (Kind.NAT in found and not nat) or (Kind.NETWORK in found and nat and Kind.NAT not in found):
        way = Nat.MASTER if nat else Nat.GATEWAY
        yield f"network.nat: was {way.value} when the network was made, and stays so; delete the cluster first"


def _too_few_addresses(settings: AzureSettings, facts: Facts) -> Iterator[str]:
    left, needed = addresses_left(facts.region.quotas), _new_addresses(settings, facts)
    if left is None or left.left >= needed:
        return
    have = "no public address is left" if left.left < 1 else f"{left.left} public address is left"
    more = f", and {needed} are needed (`network.nat: master` needs one less)" if needed > 1 else ""
    yield (
        f"cloud.location: {have} of {left.limit} in {settings.cloud.location} ({left.label}){more}; delete one that is "
        "not used, or choose another region"
    )


def alternatives_text(fits: Sequence[Fit]) -> str:
    """Return the lines that follow the problems."""
    if not fits:
        return (
            "no size in this region or nearby fits the quotas of the subscription; ask for more in the portal (Quotas)"
        )
    lines = [
        f"  {fit.size.name} in {fit.location}: {size_text(fit.size)}, {_hourly(fit.price)}" for fit in fits[:_SHOWN]
    ]
    return "\n".join(["these fit, the cheapest first:", *lines])


def cost_lines(costs: Costs, size: str) -> Iterator[str]:
    """Yield what is paid, and until when."""
    yield f"list price in US dollars, without taxes, discounts and traffic: {money(costs.whole)}"
    yield f"  machine {size}: {money(costs.machine)}; not paid while it is deallocated"
    yield f"  disk: {money(costs.disk)}; paid until `grass delete`"
    yield f"  public address: {money(costs.address)}; paid until `grass delete`"
    if costs.gateway is not None:
        paid = f"{money(costs.gateway)}, and its address {money(costs.address)}"
        yield f"  NAT gateway: {paid}; paid until `grass delete`, each GB through it besides"


def _detail(kind: Kind, settings: AzureSettings, facts: Facts, sources: Sequence[str]) -> str:
    machine = settings.machine
    match kind:
        case Kind.GROUP:
            return f", in {settings.cloud.location}"
        case Kind.RULES:
            return f"; SSH is let in from {', '.join(sources)} alone"
        case Kind.NETWORK:
            return f", {settings.network}"
        case Kind.MACHINE:
            size, zone = facts.size(machine.size), f", zone {machine.zone}" if machine.zone else ""
            about = f" ({size_text(size)})" if size else ""
            return f": {machine.size}{about}, {machine.image}, disk of {machine.disk} GiB, one public address{zone}"
    return ""


def _quota_lines(settings: AzureSettings, facts: Facts) -> Iterator[str]:
    size = facts.size(settings.machine.size)
    needs = [(quota, size.cores, "cores ") for quota in quotas_of(size, facts.region.quotas)] if size else []
    if (addresses := addresses_left(facts.region.quotas)) is not None:
        needs.append((addresses, _new_addresses(settings, facts), ""))
    for quota, taken, what in needs:
        after = max(0, quota.left - taken)
        yield f"quota {quota.label}: {quota.left} of {quota.limit} {what}are left; {after} after it"


def _new_addresses(settings: AzureSettings, facts: Facts) -> int:
    """Return how many the master and, if wanted, a NAT gateway still need."""
    return 1 + (settings.nat is Nat.GATEWAY and Kind.ADDRESS not in facts.found)


def size_text(size: Size) -> str:
    return f"{size.cores} cores, {size.memory:g} GiB" + (f", {size.gpus} GPU" if size.gpus else "")


def _hourly(price: Price) -> str:
    return "price not known" if price.hourly is None else f"${price.hourly:.4f}/hour"


def money(price: Price) -> str:
    if price.hourly is None or price.monthly is None:
        return "not known"
    return f"${price.hourly:.4f}/hour, ${price.monthly:.2f}/month"
