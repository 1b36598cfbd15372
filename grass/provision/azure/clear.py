"""Removes what Grass made on Azure for one cluster, and only that. Lists there lag, so only two empty ones count.

Used by ``delete``, and by ``making``, after a machine that failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby

from grass.azure.arm import HELD_PATIENCE, Arm, Reply
from grass.azure.faults import AzureError, AzureForbiddenError, AzureSlowError
from grass.azure.resources import LOCKS, OF_TYPE, RESOURCES, WORDS, Kind, Site, is_of_machine, is_ours
from grass.errors import GrassError, NotFoundError
from grass.manifest.document import Document

OF_MACHINE = (Kind.MACHINE, Kind.CARD, Kind.ADDRESS, Kind.DISK)
ORDER = (
    *(Kind.KUBERNETES, Kind.REGISTRY, Kind.MACHINE, Kind.IMAGE, Kind.CARD, Kind.DISK),
    *(Kind.NETWORK, Kind.NAT, Kind.ADDRESS, Kind.ROUTES, Kind.RULES),
)
"""What uses something comes before it. A network names the rules, routes and gateway of its subnets."""
_REFUSALS = (AzureError, AzureForbiddenError, AzureSlowError)
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


def clear(
    arm: Arm,
    site: Site,
    fixed: Collection[Item],
    kinds: Collection[Kind] = ORDER,
    machines: Collection[str] | None = None,
) -> dict[str, str]:
    """Remove what is marked as the cluster's. Return what stays, with the reason.

    ``fixed``: what has a name that is known without a list. ``machines``: names; only they and
    their parts go. None: everything goes.
    """
    empty = 0
    for _ in range(_ROUNDS):
        there = [
            item
            for item in _marked(arm, site, fixed)
            if item.kind in kinds and (machines is None or _is_of(item, machines, site.id))
        ]
        if stays := _all_removed(arm, site, there):
            return stays
        empty = 0 if there else empty + 1
        if empty == 2:
            return {}
        if empty == 1:
            arm.progress(f"resource group {site.group}: looking once more, as Azure's lists lag")
            arm.clock.sleep(_LAG_SECONDS)
    return {item.label: "something makes it again whenever it is removed" for item in there}


def _is_of(item: Item, machines: Collection[str], id: str) -> bool:
    return any(item.name.lower() == name.lower() or is_of_machine(item.name, name, id) for name in machines)


def _all_removed(arm: Arm, site: Site, there: list[Item]) -> dict[str, str]:
    """Remove things: all of one kind at once, as each takes a while. Return what stays, with the reason."""
    stays: dict[str, str] = {}
    for _, group in groupby(there, key=lambda item: item.kind):
        waiting: list[tuple[Item, Reply]] = []
        for item in group:
            arm.progress(f"{item.label}: deleting")
            # what stays may use the rest for ever
            held = 0.0 if stays else HELD_PATIENCE
            query = "forceDeletion=true" if item.kind is Kind.MACHINE else ""
            try:
                accepted = arm.ask_to_delete(item.kind, item.path, item.label, query, held)
            except _REFUSALS as error:
                stays[item.label] = reason(arm, site, error)
            else:
                waiting += [(item, accepted)] if accepted is not None else []
        for item, accepted in waiting:
            try:
                arm.until_deleted(item.kind, accepted, item.label)
            except _REFUSALS as error:
                stays[item.label] = reason(arm, site, error)
    return stays


def others(arm: Arm, site: Site) -> list[str]:
    """Return the names of what is in the group and not the cluster's."""
    return [f"{each.get('name')} ({each.get('type')})" for each in _listed(arm, site) if not is_ours(each, site.id)]


def _marked(arm: Arm, site: Site, fixed: Collection[Item]) -> list[Item]:
    """Return what exists of the cluster, in the order in which it can be removed."""
    found = {item.path.lower(): item for item in fixed}
    for each in _listed(arm, site):
        kind = OF_TYPE.get(str(each.get("type")).lower())
        if kind in ORDER and is_ours(each, site.id):
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
