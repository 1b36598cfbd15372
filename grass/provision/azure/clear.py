"""Removes what Grass made on Azure for one cluster, and only that. Lists there lag, so only two empty ones count.

Used by ``create``, after a machine that failed, and by ``delete``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from grass.azure.arm import HELD_PATIENCE, Arm
from grass.azure.faults import AzureError, AzureForbiddenError, AzureSlowError
from grass.azure.resources import LOCKS, OF_TYPE, RESOURCES, WORDS, Kind, Site, is_ours
from grass.errors import GrassError, NotFoundError
from grass.manifest.document import Document

ORDER = (Kind.MACHINE, Kind.CARD, Kind.ADDRESS, Kind.DISK, Kind.NETWORK, Kind.RULES)
"""What uses something comes before it. A network names the rules of its subnets."""
OF_MACHINE = ORDER[:4]
_ROUNDS = 10
_LAG_SECONDS = 20.0
"""Azure's lists show something new, or still show what is gone, for so long."""


@dataclass(frozen=True)
class Item:
    kind: Kind
    name: str
    path: str

    @property
    def label(self) -> str:
        return f"{WORDS[self.kind]} {self.name}"


def clear(arm: Arm, site: Site, fixed: Collection[Item], kinds: Collection[Kind] = ORDER) -> dict[str, str]:
    """Remove what is marked as the cluster's. Return what stays, with the reason.

    ``fixed``: what has a name that is known without a list.
    """
    empty = 0
    for _ in range(_ROUNDS):
        there = [item for item in _marked(arm, site, fixed) if item.kind in kinds]
        stays: dict[str, str] = {}
        for item in there:
            # what stays may use the rest for ever
            if why := _removed(arm, site, item, held=0.0 if stays else HELD_PATIENCE):
                stays[item.label] = why
        if stays:
            return stays
        empty = 0 if there else empty + 1
        if empty == 2:
            return {}
        if empty == 1:
            arm.progress(f"resource group {site.group}: looking once more, as Azure's lists lag")
            arm.clock.sleep(_LAG_SECONDS)
    return {item.label: "something makes it again whenever it is removed" for item in there}


def others(arm: Arm, site: Site) -> list[str]:
    """Return the names of what is in the group and not the cluster's."""
    return [f"{each.get('name')} ({each.get('type')})" for each in _listed(arm, site) if not is_ours(each, site.id)]


def _marked(arm: Arm, site: Site, fixed: Collection[Item]) -> list[Item]:
    """Return what exists of the cluster, in the order in which it can be removed."""
    found = {item.path.lower(): item for item in fixed}
    for each in _listed(arm, site):
        kind = OF_TYPE.get(str(each.get("type")).lower())
        if kind is not None and is_ours(each, site.id):
            path = str(each.get("id"))  # Azure changes the case of letters in it
            found.setdefault(path.lower(), Item(kind, str(each.get("name")), path))
    there = [item for item in found.values() if _exists(arm, site, item)]
    return sorted(there, key=lambda item: (ORDER.index(item.kind), item.name))


def _exists(arm: Arm, site: Site, item: Item) -> bool:
    """Return whether a resource is there and the cluster's: lists are late, and a name alone says nothing."""
    found = arm.find(item.path, item.kind.version, item.label)
    return found is not None and is_ours(found, site.id)


def _listed(arm: Arm, site: Site) -> list[Document]:
    try:
        return arm.list(f"{site.group_path}/resources", RESOURCES, f"resource group {site.group}")
    except NotFoundError:
        return []


def _removed(arm: Arm, site: Site, item: Item, held: float) -> str:
    """Remove one thing. Return why it stays; empty: it is gone."""
    arm.progress(f"{item.label}: deleting")
    try:
        query = "forceDeletion=true" if item.kind is Kind.MACHINE else ""
        arm.delete(item.kind, item.path, item.label, query, held)
    except (AzureError, AzureForbiddenError, AzureSlowError) as error:
        return reason(arm, site, error)
    return ""


def reason(arm: Arm, site: Site, error: GrassError) -> str:
    """Return the text of an error; for a locked thing, with the names of the locks."""
    if not isinstance(error, AzureError) or error.refusal.code != "ScopeLocked":
        return str(error)
    try:
        named = ", ".join(_locks(arm, site))
    except GrassError:
        named = ""
    return f"{error}{f' (locks: {named})' if named else ''}"


def _locks(arm: Arm, site: Site) -> Iterator[str]:
    path = f"{site.group_path}/providers/Microsoft.Authorization/locks"
    yield from (str(each.get("name")) for each in arm.list(path, LOCKS, "locks"))
