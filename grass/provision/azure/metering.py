"""Reads the meters of a cluster on Azure: which of its machines are on now, and what is paid. Kept in the folder.

Azure tells the power states of all machines in one list. Used by this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from grass.azure.arm import Arm
from grass.azure.faults import AzureForbiddenError
from grass.azure.meter import Ledger, Paid, read
from grass.azure.resources import COMPUTE, Kind, Terms, names
from grass.errors import GrassError
from grass.manifest.document import Document
from grass.provision.azure.look import Costs, costs
from grass.provision.azure.record import Record
from grass.system.private_file import write_private
from grass.wire.codec import Form, indented

FILE = "azure-cost.json"
OFF = "deallocated"
_GATEWAY = "gateway"
_LEDGER: Form[Ledger] = Form(Ledger)


@dataclass(frozen=True)
class Power:
    """A machine as Azure lists it. ``state``: running, stopped, deallocated… ``made``: wall time, if Azure says it."""

    state: str
    made: float | None = None

    @property
    def paid(self) -> bool:
        """Return whether it is paid: also one that is stopped but not deallocated."""
        return self.state != OFF


def power_of(arm: Arm, record: Record) -> dict[str, Power]:
    """Return the power of the cluster's machines, by name."""
    path = f"/subscriptions/{record.subscription}/providers/Microsoft.Compute/virtualMachines"
    where = f"/resourcegroups/{record.group}/".lower()
    known = {name.lower(): name for name in record.machines}
    try:
        listed = arm.list(path, COMPUTE, "machines", "statusOnly=true")
    except AzureForbiddenError:  # who has a right on the group alone asks for each
        each = (record.site.path(Kind.MACHINE, name) for name in record.machines)
        found = (arm.find(path, COMPUTE, "machine", "$expand=instanceView") for path in each)
        listed = [machine for machine in found if machine is not None]
    return {
        known[name]: _power(each)
        for each in listed
        if where in str(each.get("id")).lower() and (name := str(each.get("name")).lower()) in known
    }


def load(folder: Path) -> Ledger | None:
    try:
        return _LEDGER.decode((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None


def look(arm: Arm, record: Record, folder: Path, now: float, prices: Mapping[str, Costs]) -> dict[str, Power]:
    """Read the meters, and keep them. ``prices``: those that are known already, by size as it is sold."""
    power = power_of(arm, record)
    before = load(folder) or Ledger(min((each.made for each in power.values() if each.made is not None), default=now))
    found = dict(prices)
    if record.terms is not None:
        for name in power:
            size = record.machines[name].sold
            known = before.meters.get(f"{name}/machine")
            if size not in found and (known is None or known.what != size or known.hourly is None):
                like = record.machines[name].like(record.terms.machine)
                found[size] = costs(arm, record.location, like, nat=record.terms.nat)
    after = read(before, dict(_paid(record, record.terms, power, found, before)), now)
    write_private(folder / FILE, indented(after))
    return power


def look_later(arm: Arm, record: Record, folder: Path, now: float, prices: Mapping[str, Costs]) -> None:
    """Read the meters after a change. If that fails, the next look makes up for it."""
    with suppress(GrassError):
        look(arm, record, folder, now, prices)


def _paid(
    record: Record, terms: Terms | None, power: Mapping[str, Power], prices: Mapping[str, Costs], before: Ledger
) -> Iterator[tuple[str, Paid]]:
    master = names(terms.cluster if terms else "", "")[Kind.MACHINE]
    for name, each in power.items():
        size = record.machines[name].sold
        of = prices.get(size)
        parts = {"machine": size, "disk": "disk", **({"address": "address"} if name == master else {})}
        for part, what in parts.items():
            if part == "machine" and not each.paid:
                continue
            meter = before.meters.get(f"{name}/{part}")
            price = getattr(of, part).hourly if of is not None else meter.hourly if meter else None
            yield f"{name}/{part}", Paid(what, price, each.made)
    if terms is not None and terms.nat:
        of = next(iter(prices.values()), None)
        for part, what in (("machine", "NAT gateway"), ("address", "address")):
            meter = before.meters.get(f"{_GATEWAY}/{part}")
            found = of and (of.gateway if part == "machine" else of.address)
            yield f"{_GATEWAY}/{part}", Paid(what, found.hourly if found else meter.hourly if meter else None)


def _power(machine: Document) -> Power:
    properties = machine.get("properties")
    known: Document = properties if isinstance(properties, dict) else {}
    view = known.get("instanceView")
    statuses = view.get("statuses") if isinstance(view, dict) else None
    codes = [str(each.get("code")) for each in statuses or () if isinstance(each, dict)]
    state = next((code.partition("/")[2] for code in codes if code.startswith("PowerState/")), "unknown")
    return Power(state, _moment(known.get("timeCreated")))


def _moment(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)[:19] + "+00:00").timestamp()
    except ValueError:
        return None
