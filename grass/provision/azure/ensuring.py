"""Makes one resource on Azure, unless it is there as it should be. Used by ``create`` and ``grass.provision.aks``."""

from __future__ import annotations

from grass.azure.arm import Arm, state_of
from grass.azure.resources import Kind, Wanted, is_ours
from grass.errors import ConflictError
from grass.manifest.document import Document
from grass.provision.azure.making import same


def ensure(arm: Arm, each: Wanted, id: str, made: list[str], *, use_existing: bool) -> None:
    """Make a resource unless it is there as it should be. ``made``: gets what is the cluster's, once Azure accepted it.

    Raises ConflictError: somebody else has made one with this name meanwhile.
    """
    found = arm.find(each.path, each.kind.version, each.label)
    if found is not None and state_of(found) == "Deleting":
        found = arm.until_settled(each.path, each.kind, f"{each.label}, which is being deleted")
    if found is not None and not is_ours(found, id):
        if each.kind is Kind.GROUP and use_existing:
            return
        raise ConflictError(f"{each.label}: exists, and Grass did not make it; choose another name")
    if found is not None:
        if each.label not in made:
            made.append(each.label)
        if state_of(found) == "Succeeded" and (same(found, each) or _leads_somewhere(found, each)):
            return
    if found is not None and each.kind is Kind.RULES:
        arm.progress(f"{each.label}: SSH is let in from other addresses than before")
    accepted = arm.put(each.kind, each.path, each.body, each.label)
    if found is None:
        made.append(each.label)
    arm.finish(accepted, each.label, usual=each.kind.usual)
    if found is None:
        arm.progress(f"{each.label}: made")


def _leads_somewhere(found: Document, each: Wanted) -> bool:
    """Return whether routes, which the master completes, are complete already, and those wanted are not."""
    if each.kind is not Kind.ROUTES or each.body["properties"]["routes"]:
        return False
    properties = found.get("properties")
    return isinstance(properties, dict) and bool(properties.get("routes"))
