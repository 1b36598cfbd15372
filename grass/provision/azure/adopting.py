"""Learns of machines that the other autoscaler made: the one on the master, or `grass autoscale` on a user's machine.

Each keeps a record of its own. Azure knows all machines, and their tags say whose they are. Used by this package.
"""

from __future__ import annotations

from collections.abc import Mapping

from grass.azure.arm import Arm
from grass.azure.resources import Kind, is_ours
from grass.manifest.document import Document
from grass.provision.azure.record import Asked, Record, note
from grass.provision.provisioner import Session


def adopt(session: Session, arm: Arm, record: Record) -> Record:
    """Return the record with all machines of the cluster that Azure has. Only where the master makes some."""
    if record.terms is None or not record.terms.identity:
        return record
    strange = {
        name: asked_of(each)
        for each in machines_of(arm, record)
        if (name := str(each.get("name"))) not in record.machines and is_ours(each, record.id)
    }
    for name, asked in strange.items():
        note(session.folder, name, asked)
    if strange:
        session.progress(f"{', '.join(sorted(strange))}: found on Azure")
    return record.with_machines(strange)


def machines_of(arm: Arm, record: Record) -> list[Document]:
    """Return all machines of the group: a right on it alone is enough for this list."""
    path = f"{record.site.group_path}/providers/{Kind.MACHINE.type}"
    return arm.list(path, Kind.MACHINE.version, "machines")


def asked_of(machine: Document) -> Asked:
    """Return what was asked for to make a machine."""
    properties = _part(machine, "properties")
    storage = _part(properties, "storageProfile")
    image = _part(storage, "imageReference")
    disk = _part(storage, "osDisk").get("diskSizeGB")
    zones = machine.get("zones")
    spot = properties.get("priority") == "Spot"
    price = _part(properties, "billingProfile").get("maxPrice")
    return Asked(
        size=str(_part(properties, "hardwareProfile").get("vmSize")),
        zone=str(zones[0]) if isinstance(zones, list) and zones else "",
        spot=spot,
        max_price=float(price) if isinstance(price, int | float) and price > 0 else None,
        stands_in=not spot and "-spot-" in str(machine.get("name")),
        image=str(image["id"]).rpartition("/")[2]
        if "id" in image
        else ":".join(str(image.get(key)) for key in ("publisher", "offer", "sku", "version")),
        disk=disk if isinstance(disk, int) else 0,
    )


def _part(whole: Mapping[str, object], key: str) -> Document:
    found = whole.get(key)
    return found if isinstance(found, dict) else {}
