"""What a subscription may have in a region: sizes, quotas and list prices, from Azure's replies. Pure.

Used by this package and ``grass.provision.azure``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from grass.manifest.document import Document

PRICES = "https://prices.azure.com/api/retail/prices"
CORES = "cores"
"""Name of the quota of all cores in a region."""
SPOT_CORES = "lowprioritycores"
"""The same of Spot machines, of all families; in lower case."""
ADDRESSES = ("PublicIPAddresses", "StandardSkuPublicIpAddresses", "StaticPublicIPAddresses")
_TIERS = ((4, "E1"), (8, "E2"), (16, "E3"), (32, "E4"), (64, "E6"), (128, "E10"), (256, "E15"), (512, "E20"))
_LARGE_TIERS = ((1024, "E30"), (2048, "E40"), (4096, "E50"))
"""Sizes of standard SSDs: GiB and the name by which they are sold."""
HOURS_A_MONTH = 730


@dataclass(frozen=True)
class Size:
    """A size of machines. ``family`` names its quota. ``refused``: why this subscription may not have it, or empty."""

    name: str
    family: str
    cores: int
    memory: float
    """GiB."""
    gpus: int = 0
    zones: tuple[str, ...] = ()
    """Zones in which this subscription may have it."""
    refused: str = ""
    generation_2: bool = True
    processor: str = "x64"
    spot: bool = True
    """Whether it is sold as Spot."""


@dataclass(frozen=True)
class Quota:
    name: str
    label: str
    used: int
    limit: int

    @property
    def left(self) -> int:
        return self.limit - self.used


@dataclass(frozen=True)
class Price:
    """List price in US dollars. ``hourly`` None: Azure's price list does not say."""

    hourly: float | None

    @property
    def monthly(self) -> float | None:
        return None if self.hourly is None else self.hourly * HOURS_A_MONTH


UNKNOWN = Price(None)


def added(prices: Iterable[Price]) -> Price:
    """Return the sum; not known if one of them is not."""
    hourly = [price.hourly for price in prices]
    known = [each for each in hourly if each is not None]
    return Price(sum(known)) if len(known) == len(hourly) else UNKNOWN


def read_sizes(skus: Iterable[Document], location: str) -> dict[str, Size]:
    """Return lower-case name → size, of the machines in ``skus``."""
    found = (_size(sku, location) for sku in skus if sku.get("resourceType") == "virtualMachines")
    return {size.name.lower(): size for size in found}


def read_quotas(usages: Iterable[Document]) -> dict[str, Quota]:
    """Return lower-case name → quota."""
    found: dict[str, Quota] = {}
    for usage in usages:
        name = usage.get("name")
        if isinstance(name, dict):
            value = str(name.get("value", ""))
            quota = Quota(
                value,
                str(name.get("localizedValue") or value),
                _whole(usage.get("currentValue")),
                _whole(usage.get("limit")),
            )
            found[value.lower()] = quota
    return found


def price_query(location: str, names: Iterable[str]) -> str:
    """Return the filter of the price list for machines of these sizes."""
    sizes = " or ".join(f"armSkuName eq '{name}'" for name in names)
    sold = "serviceName eq 'Virtual Machines' and priceType eq 'Consumption'"
    return f"{sold} and armRegionName eq '{location}' and ({sizes})"


def disk_query(location: str, tier: str) -> str:
    return f"serviceName eq 'Storage' and armRegionName eq '{location}' and meterName eq '{tier} LRS Disk'"


ADDRESS_QUERY = "serviceName eq 'Virtual Network' and meterName eq 'Standard IPv4 Static Public IP'"
GATEWAY_QUERY = "serviceName eq 'NAT Gateway' and meterName eq 'Standard Gateway'"


UPTIME_QUERY = "serviceName eq 'Azure Kubernetes Service' and meterName eq 'Standard Uptime SLA'"
REGISTRY_QUERY = "serviceName eq 'Container Registry' and meterName eq 'Basic Registry Unit'"
BALANCER_QUERY = "serviceName eq 'Load Balancer' and meterName eq 'Standard Included LB Rules and Outbound Rules'"


def disk_tier(gib: int) -> str:
    return next(tier for size, tier in (*_TIERS, *_LARGE_TIERS) if gib <= size)


def read_prices(items: Iterable[Document], *, spot: bool = False) -> dict[str, Price]:
    """Return lower-case size → price of machines with Linux that run until they are stopped; ``spot``: as Spot."""
    found: dict[str, float] = {}
    for item in items:
        words = f"{item.get('skuName')} {item.get('productName')} {item.get('meterName')}"
        other = any(word in words for word in ("Low Priority", "Windows")) or ("Spot" in words) != spot
        if other or item.get("type") != "Consumption":
            continue
        name, price = str(item.get("armSkuName", "")).lower(), _dollars(item)
        if price is not None:
            found[name] = min(price, found.get(name, price))
    return {name: Price(price) for name, price in found.items()}


def read_price(items: Iterable[Document], location: str = "") -> Price:
    """Return the price of one thing, by the hour. ``location``: preferred, if the list has it for several regions."""
    listed = [(item, price) for item in items if (price := _dollars(item)) is not None and price > 0]
    here = [each for each in listed if each[0].get("armRegionName") == location] or listed
    hourly = [
        price / _hours_of(str(item.get("unitOfMeasure"))) for item, price in here if item.get("type") == "Consumption"
    ]
    return Price(min(hourly)) if hourly else UNKNOWN


def _hours_of(unit: str) -> int:
    return HOURS_A_MONTH if "Month" in unit else 24 if "Day" in unit else 1


def _dollars(item: Document) -> float | None:
    price = item.get("retailPrice")
    usual = item.get("currencyCode", "USD") == "USD" and not item.get("tierMinimumUnits")
    return float(price) if isinstance(price, (int, float)) and usual else None


def _size(sku: Document, location: str) -> Size:
    can = {str(each.get("name")): str(each.get("value")) for each in _dicts(sku.get("capabilities"))}
    offered = {zone for each in _dicts(sku.get("locationInfo")) for zone in each.get("zones") or ()}
    refused = ""
    for each in _dicts(sku.get("restrictions")):
        if each.get("type") == "Zone":
            info = each.get("restrictionInfo")
            offered -= set(info.get("zones") or ()) if isinstance(info, dict) else set()
        else:
            refused = str(each.get("reasonCode") or "restricted")
    return Size(
        name=str(sku.get("name", "")),
        family=str(sku.get("family", "")),
        cores=_whole(can.get("vCPUsAvailable") or can.get("vCPUs")),
        memory=_number(can.get("MemoryGB")),
        gpus=_whole(can.get("GPUs")),
        zones=tuple(sorted(offered)),
        refused=refused,
        generation_2="V2" in can.get("HyperVGenerations", "V2"),
        processor=can.get("CpuArchitectureType", "x64"),
        spot=can.get("LowPriorityCapable", "True") == "True",
    )


def _dicts(value: object) -> Iterator[Document]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return 0.0


def _whole(value: object) -> int:
    return int(_number(value))
