"""Finds sizes that a subscription may have, near to one that it may not, the cheapest first. Pure.

Used by ``grass.provision.azure``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from grass.azure.catalogue import CORES, SPOT_CORES, UNKNOWN, Price, Quota, Size
from grass.manifest.azure_images import obstacles_to, start_of

LEAST_CORES, LEAST_MEMORY = 2, 3.5
"""What a master needs at least; memory in GiB."""
MOST_CANDIDATES = 12
"""Sizes whose prices are asked for in one request."""


@dataclass(frozen=True)
class Fit:
    """A size that may be had in a region."""

    size: Size
    location: str
    price: Price = UNKNOWN


def obstacles(
    size: Size, quotas: Mapping[str, Quota], zone: str | None = None, count: int = 1, *, spot: bool = False
) -> Iterator[str]:
    """Yield why a subscription cannot have so many more machines of this size now; none: it can, if Azure has them."""
    if size.refused:
        yield f"{size.name} is not offered to this subscription there ({size.refused})"
    if zone is not None and zone not in size.zones:
        named = f"only in the zones {', '.join(size.zones)}" if size.zones else "without a choice of a zone"
        yield f"{size.name} is not offered in zone {zone}, {named}"
    if not size.generation_2:
        yield f"{size.name} does not start images of generation 2"
    if spot and not size.spot:
        yield f"{size.name} is not sold as Spot"
    for quota in quotas_of(size, quotas, spot=spot):
        if quota.left < size.cores * count:
            needs = f"{size.name} needs" if count == 1 else f"{count} more {size.name} need"
            cores = f"{size.cores * count} cores"
            yield f"{needs} {cores}, but {max(0, quota.left)} of {quota.limit} are left of {quota.label}"


def quotas_of(size: Size, quotas: Mapping[str, Quota], *, spot: bool = False) -> list[Quota]:
    """Return the quotas that count a machine of this size. Azure's lists differ in the case of letters."""
    names = (SPOT_CORES,) if spot else (CORES, size.family.lower())
    return [quotas[name] for name in names if name in quotas]


def taken(size: Size, quotas: Mapping[str, Quota], count: int, *, spot: bool = False) -> dict[str, Quota]:
    """Return the quotas as they are with so many more machines of this size."""
    used = {
        quota.name.lower(): replace(quota, used=quota.used + size.cores * count)
        for quota in quotas_of(size, quotas, spot=spot)
    }
    return {**quotas, **used}


def candidates(
    wanted: Size, sizes: Mapping[str, Size], quotas: Mapping[str, Quota], zone: str | None = None
) -> list[Size]:
    """Return the sizes that fit, the nearest in cores and memory first."""
    fitting = [
        size
        for size in sizes.values()
        if size.processor == wanted.processor
        and bool(size.gpus) == bool(wanted.gpus)
        and size.cores >= LEAST_CORES
        and size.memory >= LEAST_MEMORY
        and next(obstacles_to(size.name, start_of(size.name)), None) is None
        and next(obstacles(size, quotas, zone), None) is None
    ]
    return sorted(fitting, key=lambda size: (_distance(size, wanted), size.name))[:MOST_CANDIDATES]


def cheapest_first(fits: list[Fit]) -> list[Fit]:
    """Sort by price; what has none in the list comes last."""
    return sorted(
        fits, key=lambda fit: (fit.price.hourly is None, fit.price.hourly or 0.0, fit.size.name, fit.location)
    )


def _distance(size: Size, wanted: Size) -> float:
    return abs(math.log2(size.cores / max(1, wanted.cores))) + abs(math.log2(size.memory / max(0.5, wanted.memory)))
