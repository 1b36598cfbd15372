"""Reads the meters of a cluster on Azure's Kubernetes: what is on now, and what is paid. Kept in the cluster's folder.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from grass.azure.aks import is_stopped, kubernetes
from grass.azure.arm import Arm
from grass.azure.catalogue import UNKNOWN, Price
from grass.azure.meter import Ledger, Paid, read
from grass.errors import GrassError
from grass.manifest.document import Document
from grass.provision.aks.edges import Edges
from grass.provision.aks.look import Prices, prices_of, size_prices
from grass.provision.aks.plan import times
from grass.provision.aks.record import Record
from grass.provision.azure.metering import FILE, load
from grass.provision.provisioner import Session
from grass.system.private_file import write_private
from grass.wire.codec import indented

POOL = "pool "
"""Begins the names of the meters of pools."""


def look(
    arm: Arm, record: Record, session: Session, edges: Edges, prices: Prices | None = None
) -> tuple[Ledger, dict[str, str]]:
    """Read the meters, and keep them. Return them, and the state of each thing by its name.

    ``prices``: those that are known already."""
    terms, now = record.terms, edges.wall()
    assert terms is not None, "it is saved with them"
    each = kubernetes(terms, record.site)
    found = arm.find(each.path, each.kind.version, each.label)
    before = load(session.folder) or Ledger(now)
    known = prices or prices_of(arm, terms)
    pools = _pools(found) if found is not None else {}
    of = size_prices(arm, record.location, {size for size, _ in pools.values()})
    off = found is None or is_stopped(found)
    ledger = read(before, dict(_paid(record, pools, known, of, off=off, gone=found is None)), now)
    write_private(session.folder / FILE, indented(ledger))
    power = "removed" if found is None else "stopped" if off else "running"
    states = {POOL + name: power if count or off else "empty" for name, (_, count) in pools.items()}
    return ledger, {**states, "control plane": power}


def look_later(arm: Arm, record: Record, session: Session, edges: Edges, prices: Prices | None = None) -> None:
    """Read the meters after a change. If that fails, the next look makes up for it."""
    with suppress(GrassError):
        look(arm, record, session, edges, prices)


def _pools(found: Document) -> dict[str, tuple[str, int]]:
    """Return name → size and count, of all pools: also those that Grass did not make."""
    listed = found["properties"].get("agentPoolProfiles") or ()
    return {str(each["name"]): (str(each["vmSize"]), int(each.get("count") or 0)) for each in listed}


def _paid(
    record: Record, pools: dict[str, tuple[str, int]], known: Prices, of: dict[str, Price], *, off: bool, gone: bool
) -> Iterator[tuple[str, Paid]]:
    for name, (size, count) in pools.items():
        if count and not off:
            yield f"{POOL}{name}/machine", Paid(f"{count} × {size}", times(of.get(size, UNKNOWN), count).hourly)
            yield f"{POOL}{name}/disk", Paid("disks", times(known.disk, count).hourly)
    if not off:
        tier = record.terms.tier.value if record.terms is not None else ""
        yield "control plane/machine", Paid(f"tier {tier}", known.uptime.hourly)
    if not gone:
        yield "balancer/machine", Paid("balancer", known.balancer.hourly)
        yield "balancer/address", Paid("address", known.address.hourly)
    if record.terms is not None and record.terms.registry:
        yield "registry/machine", Paid("registry Basic", known.registry.hourly)
