"""Facts of a subscription, gathered before anything is made: what exists, what is allowed, what is left, what it costs.

Only reads. Used by this package.
"""

from __future__ import annotations

import difflib
import ipaddress
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

from grass.azure import catalogue
from grass.azure.arm import Arm, state_of
from grass.azure.catalogue import ADDRESSES, Price, Quota, Size, added
from grass.azure.faults import AzureError, AzureForbiddenError, AzureLoginError
from grass.azure.finder import Fit, candidates, cheapest_first, obstacles
from grass.azure.resources import (
    ASSIGNMENTS,
    COMPUTE,
    NAMESPACES,
    NETWORKING,
    RESOURCES,
    SKUS,
    SUBSCRIPTIONS,
    Kind,
    names,
)
from grass.errors import GrassError, InputError, NotFoundError, UnreachableError
from grass.manifest.azure import AzureSettings, MachineSettings, Nat
from grass.manifest.document import Document

_OWN_ADDRESS = "https://api.ipify.org?format=json"
Position = tuple[float, float]
"""Latitude and longitude, in degrees."""
_REGIONS = 5
"""Other regions that are looked at if a size may not be had: two requests each."""
_PLAIN = Size("Standard_B2s", "", 2, 4.0)
"""Size to search near, if Azure does not know the wanted one there."""


@dataclass(frozen=True)
class Subscription:
    id: str
    name: str

    @property
    def path(self) -> str:
        return f"/subscriptions/{self.id}"


@dataclass(frozen=True)
class Region:
    """What may be had in one region."""

    name: str
    sizes: Mapping[str, Size]
    quotas: Mapping[str, Quota]


@dataclass(frozen=True)
class Costs:
    machine: Price = catalogue.UNKNOWN
    disk: Price = catalogue.UNKNOWN
    address: Price = catalogue.UNKNOWN
    gateway: Price | None = None
    """Of a NAT gateway; None: the cluster has none."""

    @property
    def whole(self) -> Price:
        """Return what a cluster with a master alone costs."""
        parts = [self.machine, self.disk, self.address]
        return added([*parts, self.gateway, self.address] if self.gateway is not None else parts)


@dataclass(frozen=True)
class Facts:
    """All that is known of a subscription.

    ``locations``: all regions with their positions. ``found``: what has a name of the cluster already.
    ``unregistered``: providers that are not used yet. ``allowed``: regions that policies name; None: none is known.
    """

    subscription: Subscription
    locations: Mapping[str, Position | None]
    region: Region
    found: Mapping[Kind, Document]
    unregistered: tuple[str, ...]
    allowed: frozenset[str] | None
    costs: Costs = field(default_factory=Costs)

    def size(self, name: str) -> Size | None:
        return self.region.sizes.get(name.lower())


def subscription_of(arm: Arm, wanted: str | None) -> Subscription:
    """Return the subscription with this name or id; None: the only one. Raises InputError, AzureLoginError."""
    listed = [
        Subscription(str(each.get("subscriptionId")), str(each.get("displayName")))
        for each in arm.list("/subscriptions", SUBSCRIPTIONS, "subscriptions")
        if each.get("state") in ("Enabled", None)
    ]
    found = [each for each in listed if wanted is None or wanted.lower() in (each.id.lower(), each.name.lower())]
    if len(found) == 1:
        return found[0]
    seen = ", ".join(f"{each.name} ({each.id})" for each in listed) or "none"
    if not listed:
        raise AzureLoginError(
            "Azure: this login sees no subscription; sign in with `az login --tenant TENANT`, then repeat the command"
        )
    if wanted is None or found:
        raise InputError(f"cloud.subscription: must be said, by name or id, as this login sees several: {seen}")
    raise InputError(
        f"cloud.subscription: this login sees no {wanted!r}, but {seen}; for another tenant, `az login --tenant TENANT`"
    )


def look(settings: AzureSettings, arm: Arm, subscription: Subscription) -> Facts:
    """Raises InputError: there is no such region."""
    cloud = settings.cloud
    locations = locations_of(arm, subscription, cloud.location)
    return Facts(
        subscription,
        locations,
        region_of(arm, subscription, cloud.location),
        existing(settings, arm, subscription),
        tuple(name for name in NAMESPACES if not is_registered(arm, subscription, name)),
        allowed_regions(arm, subscription),
        costs(arm, cloud.location, settings.machine, nat=settings.nat is Nat.GATEWAY),
    )


def locations_of(arm: Arm, subscription: Subscription, wanted: str) -> dict[str, Position | None]:
    """Return all regions. Raises InputError: the wanted one is none."""
    listed = arm.list(f"{subscription.path}/locations", SUBSCRIPTIONS, "regions")
    locations = {str(each.get("name")): position_of(each) for each in listed}
    if wanted not in locations:
        near = difflib.get_close_matches(wanted, locations, 3) or sorted(locations)
        raise InputError(f"cloud.location: Azure has no region {wanted} for you; there are {', '.join(near)}")
    return locations


def existing(settings: AzureSettings, arm: Arm, subscription: Subscription) -> dict[Kind, Document]:
    group = settings.cloud.resource_group
    root = f"{subscription.path}/resourceGroups/{group}"
    found: dict[Kind, Document] = {}
    for kind, name in names(settings.name, group).items():
        path = root if kind is Kind.GROUP else f"{root}/providers/{kind.type}/{name}"
        there = arm.find(path, kind.version, name)
        if kind is Kind.GROUP and (there is None or state_of(there) == "Deleting"):
            return {}
        if there is not None:
            found[kind] = there
    return found


def region_of(arm: Arm, subscription: Subscription, location: str) -> Region:
    path = f"{subscription.path}/providers"
    filtered = "$filter=" + quote(f"location eq '{location}'")
    skus = arm.list(f"{path}/Microsoft.Compute/skus", SKUS, f"sizes in {location}", filtered)
    usages = [
        usage
        for namespace, version in (("Microsoft.Compute", COMPUTE), ("Microsoft.Network", NETWORKING))
        for usage in arm.list(f"{path}/{namespace}/locations/{location}/usages", version, f"quotas in {location}")
    ]
    return Region(location, catalogue.read_sizes(skus, location), catalogue.read_quotas(usages))


def addresses(arm: Arm, machine: Document, what: str) -> tuple[str, str]:
    """Return the public and the private address of a machine: of its first card. Empty: it has none."""
    try:
        card = machine["properties"]["networkProfile"]["networkInterfaces"][0]["id"]
        found = arm.get(card, Kind.CARD.version, f"network card of {what}")["properties"]["ipConfigurations"][0]
        properties = found["properties"]
        private, public = str(properties["privateIPAddress"]), properties.get("publicIPAddress")
        if public is None:
            return "", private
        shown = arm.get(public["id"], Kind.ADDRESS.version, f"address of {what}")["properties"]
        return str(shown.get("ipAddress") or ""), private
    except (KeyError, IndexError, TypeError) as error:
        raise GrassError(f"{what}: has no network card; remove the machine, then make it again") from error


def addresses_left(quotas: Mapping[str, Quota]) -> Quota | None:
    """Return the tightest of the quotas that count public addresses."""
    known = [quotas[name.lower()] for name in ADDRESSES if name.lower() in quotas]
    return min(known, key=lambda quota: quota.left, default=None)


def costs(arm: Arm, location: str, like: MachineSettings, *, nat: bool = False) -> Costs:
    """Return list prices. Without a reply they are not known: nobody is kept from a cluster by that."""
    size, tier = like.size, catalogue.disk_tier(like.disk)
    with suppress(UnreachableError, AzureError, NotFoundError):
        machine = catalogue.read_prices(prices(arm, catalogue.price_query(location, [size])), spot=like.spot)
        disk = catalogue.read_price(prices(arm, catalogue.disk_query(location, tier)), location)
        address = catalogue.read_price(prices(arm, catalogue.ADDRESS_QUERY), location)
        gateway = catalogue.read_price(prices(arm, catalogue.GATEWAY_QUERY), location) if nat else None
        return Costs(machine.get(size.lower(), catalogue.UNKNOWN), disk, address, gateway)
    return Costs(gateway=catalogue.UNKNOWN if nat else None)


def alternatives(settings: AzureSettings, arm: Arm, facts: Facts) -> list[Fit]:
    """Return sizes in the wanted region, and the wanted size in regions nearby, that the subscription may have."""
    name, zone = settings.machine.size, settings.machine.zone
    wanted = facts.size(name)
    here = facts.region
    fits = [Fit(size, here.name) for size in candidates(wanted or _PLAIN, here.sizes, here.quotas, zone)]
    if facts.allowed is not None and here.name not in facts.allowed:
        fits = []
    for location in _nearby(facts):
        region = region_of(arm, facts.subscription, location)
        size = region.sizes.get(name.lower())
        near = candidates(wanted or size or _PLAIN, region.sizes, region.quotas)[:2]
        own = [size] if size is not None and next(obstacles(size, region.quotas), None) is None else near
        fits += [Fit(each, location) for each in own]
    return cheapest_first(_priced(arm, fits))


def alternatives_here(region: Region, name: str, zone: str | None, arm: Arm) -> list[Fit]:
    """Return sizes of this region, near to one by name, that the subscription may have: nodes are in one network."""
    near = region.sizes.get(name.lower()) or _PLAIN
    fits = [Fit(size, region.name) for size in candidates(near, region.sizes, region.quotas, zone)]
    return cheapest_first(_priced(arm, [fit for fit in fits if fit.size.name.lower() != name.lower()]))


def own_address(arm: Arm) -> str:
    """Return this machine's address as the Internet sees it. Raises InputError."""
    try:
        found = str(arm.request("GET", _OWN_ADDRESS, "address of this machine", patience=5.0).content.get("ip", ""))
        return str(ipaddress.IPv4Address(found))
    except (GrassError, ValueError) as error:
        raise InputError(
            f"ssh.from: is missing, and the address of this machine on the Internet cannot be found out ({error}); "
            "write it in the file"
        ) from error


def _nearby(facts: Facts) -> list[str]:
    """Return the nearest other regions, without those that a known policy forbids."""
    here = facts.locations.get(facts.region.name)
    open_to = [
        (_distance(here, position), name)
        for name, position in facts.locations.items()
        if position and name != facts.region.name and (facts.allowed is None or name in facts.allowed)
    ]
    return [name for _, name in sorted(open_to)[:_REGIONS]]


def position_of(location: Document) -> Position | None:
    """Return latitude and longitude; None: it is no region with machines."""
    found = location.get("metadata")
    if not isinstance(found, dict) or found.get("regionType", "Physical") != "Physical":
        return None
    try:
        return float(found["latitude"]), float(found["longitude"])
    except (KeyError, TypeError, ValueError):
        return None


def _distance(one: Position | None, other: Position) -> float:
    """Return what grows with the distance on the globe."""
    if one is None:
        return 0.0
    (a, b), (c, d) = (map(math.radians, each) for each in (one, other))
    return math.sin((a - c) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((b - d) / 2) ** 2


def _priced(arm: Arm, fits: list[Fit]) -> list[Fit]:
    priced = []
    for location in dict.fromkeys(fit.location for fit in fits):
        there = [fit for fit in fits if fit.location == location]
        known: dict[str, Price] = {}
        with suppress(UnreachableError, AzureError, NotFoundError):
            query = catalogue.price_query(location, [fit.size.name for fit in there])
            known = catalogue.read_prices(prices(arm, query))
        priced += [Fit(fit.size, location, known.get(fit.size.name.lower(), catalogue.UNKNOWN)) for fit in there]
    return priced


def prices(arm: Arm, query: str) -> Iterable[Document]:
    url = f"{catalogue.PRICES}?$filter={quote(query)}"
    return list(arm.pages(url, "list prices", "Items", "NextPageLink", patience=0.0))


def is_registered(arm: Arm, subscription: Subscription, namespace: str) -> bool:
    state = arm.get(f"{subscription.path}/providers/{namespace}", RESOURCES, namespace).get("registrationState")
    return state == "Registered"


def allowed_regions(arm: Arm, subscription: Subscription) -> frozenset[str] | None:
    """Return the regions that policies of the usual kind allow. Who may not read policies learns it from a refusal."""
    path = f"{subscription.path}/providers/Microsoft.Authorization/policyAssignments"
    allowed: frozenset[str] | None = None
    with suppress(AzureForbiddenError, AzureError, NotFoundError):
        for each in arm.list(path, ASSIGNMENTS, "policies"):
            properties = each.get("properties")
            parameters = properties.get("parameters") if isinstance(properties, dict) else None
            regions = parameters.get("listOfAllowedLocations") if isinstance(parameters, dict) else None
            if isinstance(regions, dict) and isinstance(regions.get("value"), list):
                named = frozenset(str(name).replace(" ", "").lower() for name in regions["value"])
                allowed = named if allowed is None else allowed & named
    return allowed
