"""Facts of a subscription for a cluster on Azure's Kubernetes, gathered before anything is made. Only reads.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from grass.azure import catalogue
from grass.azure.aks import NAMESPACES, Terms, path_of, versions_of
from grass.azure.arm import Arm, state_of
from grass.azure.catalogue import UNKNOWN, Price, added
from grass.azure.faults import AzureError
from grass.azure.finder import Fit
from grass.azure.resources import CONTAINERS, REGISTRIES, WORDS, Kind, Site
from grass.errors import NotFoundError, UnreachableError
from grass.manifest.aks import LEAST_CORES, Tier, unfit_for_system
from grass.manifest.azure import MachineSettings
from grass.manifest.document import Document
from grass.provision.azure.look import (
    Region,
    Subscription,
    allowed_regions,
    alternatives_here,
    is_registered,
    locations_of,
    prices,
    region_of,
)
from grass.provision.azure.look import costs as machine_costs

_DISK_TIER = "P10"
"""What Azure takes for a disk of 128 GiB of a machine that has fast disks."""


@dataclass(frozen=True)
class Prices:
    """List prices by the hour. ``machine`` and ``disk``: of one machine of the system pool."""

    machine: Price = UNKNOWN
    disk: Price = UNKNOWN
    uptime: Price = UNKNOWN
    balancer: Price = UNKNOWN
    address: Price = UNKNOWN
    registry: Price = UNKNOWN


@dataclass(frozen=True)
class Facts:
    """All that is known of a subscription. ``found``: what has a name of the cluster already. ``versions``: of
    Kubernetes. ``registry_taken``: somebody on Azure has a registry of this name. Further as for machines."""

    subscription: Subscription
    region: Region
    found: Mapping[Kind, Document]
    versions: tuple[str, ...]
    unregistered: tuple[str, ...]
    allowed: frozenset[str] | None
    registry_taken: bool = False
    prices: Prices = field(default_factory=Prices)


def look(terms: Terms, arm: Arm, subscription: Subscription, group: str) -> Facts:
    """Raises InputError: there is no such region."""
    locations_of(arm, subscription, terms.location)
    site = Site(subscription.id, group, "")
    paths = {Kind.GROUP: site.group_path, Kind.KUBERNETES: path_of(site, terms.cluster)}
    if terms.registry:
        paths[Kind.REGISTRY] = site.path(Kind.REGISTRY, terms.registry)
    found: dict[Kind, Document] = {}
    for kind, path in paths.items():
        there = arm.find(path, kind.version, WORDS[kind])
        if there is None or (kind is Kind.GROUP and state_of(there) == "Deleting"):
            if kind is Kind.GROUP:
                break
            continue
        found[kind] = there
    versions = f"{subscription.path}/providers/Microsoft.ContainerService/locations/{terms.location}/kubernetesVersions"
    return Facts(
        subscription,
        region_of(arm, subscription, terms.location),
        found,
        versions_of(arm.get(versions, CONTAINERS, "versions of Kubernetes")),
        tuple(name for name in NAMESPACES if not is_registered(arm, subscription, name)),
        allowed_regions(arm, subscription),
        bool(terms.registry) and Kind.REGISTRY not in found and _taken(arm, subscription, terms.registry),
        prices_of(arm, terms),
    )


def prices_of(arm: Arm, terms: Terms) -> Prices:
    """Return list prices. Without a reply they are not known: nobody is kept from a cluster by that."""
    machine = machine_costs(arm, terms.location, replace(MachineSettings(), size=terms.system.size))

    def price(query: str) -> Price:
        with suppress(UnreachableError, AzureError, NotFoundError):
            return catalogue.read_price(prices(arm, query), terms.location)
        return UNKNOWN

    free = Price(0.0)
    return Prices(
        machine.machine,
        disk_price(arm, terms.location),
        price(catalogue.UPTIME_QUERY) if terms.tier is Tier.STANDARD else free,
        price(catalogue.BALANCER_QUERY),
        machine.address,
        price(catalogue.REGISTRY_QUERY) if terms.registry else free,
    )


def disk_price(arm: Arm, location: str) -> Price:
    with suppress(UnreachableError, AzureError, NotFoundError):
        return catalogue.read_price(prices(arm, catalogue.disk_query(location, _DISK_TIER)), location)
    return UNKNOWN


def size_prices(arm: Arm, location: str, sizes: Iterable[str]) -> dict[str, Price]:
    """Return the price of one machine of each size."""
    wanted, found = list(sizes), dict[str, Price]()
    with suppress(UnreachableError, AzureError, NotFoundError):
        if wanted:
            found = catalogue.read_prices(prices(arm, catalogue.price_query(location, wanted)))
    return {size: found.get(size.lower(), UNKNOWN) for size in wanted}


def alternatives(region: Region, size: str, arm: Arm, *, system: bool) -> list[Fit]:
    """Return sizes of this region that the subscription may have. ``system``: for the system pool."""
    fits = alternatives_here(region, size, None, arm)
    if not system:
        return fits
    return [
        fit for fit in fits if fit.size.cores >= LEAST_CORES and next(unfit_for_system(fit.size.name), None) is None
    ]


def always(found: Prices, count: int) -> Price:
    """Return what a cluster without pools for tasks costs. ``count``: machines of the system pool."""
    machines = [each for each in (found.machine, found.disk) for _ in range(count)]
    return added([*machines, found.uptime, found.balancer, found.address, found.registry])


def _taken(arm: Arm, subscription: Subscription, name: str) -> bool:
    path = f"{subscription.path}/providers/Microsoft.ContainerRegistry/checkNameAvailability"
    with suppress(AzureError, NotFoundError):  # the provider is not registered yet: the request itself tells
        body = {"name": name, "type": Kind.REGISTRY.type}
        reply = arm.request("POST", arm.url(path, REGISTRIES), f"registry {name}", body)
        return reply.content.get("nameAvailable") is False
    return False
