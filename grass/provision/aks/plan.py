"""What a cluster on Azure's Kubernetes needs, leaves and costs, as text. Pure: it knows only facts.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Iterator

from grass.azure.aks import DISK, KEPT_TAG, Terms, kubernetes, name_of, node_group, registry_host
from grass.azure.catalogue import Price, added
from grass.azure.finder import obstacles, quotas_of
from grass.azure.resources import Kind, Site, is_ours
from grass.manifest.aks import LEAST_CORES, AksSettings, Tier
from grass.provision.aks.look import Facts, Prices, always
from grass.provision.azure.look import addresses_left
from grass.provision.azure.plan import NO_PROMISE, money, place_problems, size_text


def problems(settings: AksSettings, terms: Terms, facts: Facts, site: Site) -> list[str]:
    """Return what keeps the cluster from being made, each with its path in the file."""
    return list(_problems(settings, terms, facts, site))


def _problems(settings: AksSettings, terms: Terms, facts: Facts, site: Site) -> Iterator[str]:
    cloud, found = settings.cloud, facts.found
    yield from place_problems(cloud, found.get(Kind.GROUP), facts.allowed, site.id)
    for kind, key, name in (
        (Kind.KUBERNETES, "name", name_of(terms.cluster)),
        (Kind.REGISTRY, "registry", terms.registry),
    ):
        there = found.get(kind)
        if there is not None and not is_ours(there, site.id):
            yield f"{key}: {name} exists in {cloud.resource_group}, and Grass did not make it; choose another name"
    if facts.registry_taken:
        yield f"registry: the name {terms.registry} is taken by somebody on Azure; choose another one"
    if (known := found.get(Kind.KUBERNETES)) is not None:
        if is_ours(known, site.id) and known["tags"].get(KEPT_TAG) != kubernetes(terms, site).body["tags"][KEPT_TAG]:
            yield (
                "system and kubernetes.version: are kept by the cluster that exists; take them back in the file, or "
                "delete the cluster first"
            )
        return
    if terms.version and terms.version not in facts.versions:
        offered = ", ".join(each for each in facts.versions if each.count(".") == 1) or "none"
        yield f"kubernetes.version: Azure does not offer {terms.version} in {cloud.location}, but {offered}"
    yield from system_problems(terms, facts)
    left = addresses_left(facts.region.quotas)
    if left is not None and left.left < 1:
        yield (
            f"cloud.location: no public address is left of {left.limit} in {cloud.location} ({left.label}), and the "
            "balancer of Kubernetes needs one; delete one that is not used, or choose another region"
        )


def system_problems(terms: Terms, facts: Facts) -> Iterator[str]:
    """Yield why the system pool cannot be had."""
    size = facts.region.sizes.get(terms.system.size.lower())
    if size is None:
        yield f"system.size: Azure has no {terms.system.size} in {terms.location}"
        return
    if size.cores < LEAST_CORES:
        yield f"system.size: {size.name} has {size.cores} cores, and Azure wants {LEAST_CORES} for its own pods"
    yield from (f"system.size: {each}" for each in obstacles(size, facts.region.quotas, None, terms.system.count))


def plan_lines(settings: AksSettings, terms: Terms, facts: Facts, id: str) -> Iterator[str]:
    cloud, system, found = settings.cloud, terms.system, facts.found
    yield f"subscription {facts.subscription.name} ({facts.subscription.id}), region {cloud.location}"
    for namespace in facts.unregistered:
        yield f"{namespace}: is registered for the subscription first (minutes, once)"
    ours = Kind.GROUP not in found or is_ours(found[Kind.GROUP], id)
    state = _state(facts, Kind.GROUP) if ours else "exists, and is used as it is"
    yield f"resource group {cloud.resource_group}: {state}"
    if terms.registry:
        yield (
            f"registry {registry_host(terms.registry)}: {_state(facts, Kind.REGISTRY)}; the machines may pull from it, "
            "by a right if you may give it (Owner, User Access Administrator), otherwise with a Secret"
        )
    size = facts.region.sizes.get(system.size.lower())
    about = f" ({size_text(size)})" if size else ""
    yield (
        f"Kubernetes {name_of(terms.cluster)}: {_state(facts, Kind.KUBERNETES)}: version "
        f"{terms.version or 'of Azure'}, tier {terms.tier.value}; its API server is reached from "
        f"{', '.join(terms.sources)} alone"
    )
    machines = f"{system.count} × {system.size}{about}, disk of {DISK} GiB"
    yield f"pool system: {machines}; for Azure's pods, tasks have the rest"
    yield f"resource group {node_group(terms.cluster, '…')}: Azure makes it for the machines, and removes it with them"
    namespace = settings.node.namespace
    share = f", with {settings.share} GiB of Azure's files as their share" if settings.share else ""
    yield f"node {settings.node.name}: the namespace {namespace}{share}; its tasks are pods, this machine is the master"
    if Kind.KUBERNETES not in found:
        for quota in quotas_of(size, facts.region.quotas) if size else ():
            after = max(0, quota.left - size.cores * system.count if size else 0)
            yield f"quota {quota.label}: {quota.left} of {quota.limit} cores are left; {after} after it"
        if (left := addresses_left(facts.region.quotas)) is not None:
            yield f"quota {left.label}: {left.left} of {left.limit} are left; {max(0, left.left - 1)} after it"
    yield from cost_lines(terms, facts.prices)
    yield "`grass node scale SIZE N` then makes machines for tasks; a pool of 0 costs nothing"
    yield NO_PROMISE


def cost_lines(terms: Terms, found: Prices) -> Iterator[str]:
    """Yield what is paid, and until when."""
    count = terms.system.count
    whole = always(found, count)
    yield f"list price in US dollars, without taxes, discounts, traffic and files of the share: {money(whole)}"
    stops = "not paid while the cluster is stopped"
    yield f"  machines of the pool system: {money(times(found.machine, count))}; {stops}"
    yield f"  their disks: {money(times(found.disk, count))}; {stops}"
    tier = "paid for an uptime of 99.9 %" if terms.tier is Tier.STANDARD else "free, without a promised uptime"
    yield f"  Azure's part (tier {terms.tier.value}): {money(found.uptime)}; {tier}; {stops}"
    yield f"  balancer and its address: {money(added([found.balancer, found.address]))}; paid until `grass delete`"
    if terms.registry:
        yield f"  registry: {money(found.registry)}; paid until `grass delete`"


def times(price: Price, count: int) -> Price:
    return Price(None if price.hourly is None else price.hourly * count)


def _state(facts: Facts, kind: Kind) -> str:
    return "exists" if kind in facts.found else "is made"
