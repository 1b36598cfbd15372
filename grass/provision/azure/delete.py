"""`grass delete` of a cluster on Azure: what Grass made there goes, all else stays; then this machine's files.

Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Collection

from grass.azure.arm import Arm
from grass.azure.faults import AzureError, AzureForbiddenError, AzureSlowError
from grass.azure.meter import spent
from grass.azure.resources import Kind, Site, is_ours, names
from grass.errors import GrassError
from grass.provision.azure.clear import Item, clear, others, reason
from grass.provision.azure.edges import Edges
from grass.provision.azure.metering import load
from grass.provision.azure.record import load_record
from grass.provision.filelock import cluster_lock
from grass.provision.on_premises.delete import clean_nodes
from grass.provision.on_premises.machines import load_machines
from grass.provision.provisioner import Deleted, Session
from grass.system.tree_removal import remove_tree


class LeftOnAzureError(GrassError):
    """Something that Grass made could not be removed. The cluster's folder stays, so that it can be tried again."""

    code = "left-on-azure"


def delete(session: Session, edges: Edges, *, force: bool, packages: bool) -> Deleted:
    """Delete the cluster. A repeated call continues an interrupted one. Raises LeftOnAzureError, StayedError."""
    with cluster_lock(session.home, session.name):
        record, left = load_record(session.folder), {}
        machines = load_machines(session.name, session.home)
        made = record.nodes(session.name) if record is not None else {}
        if machines is not None and machines.nodes.keys() - made.keys():
            left = clean_nodes(session, machines, force, packages, also_reached={}, skip=made)
        if record is not None:
            arm = edges.arm(record.endpoint, session)
            say_what_it_cost(session, edges.wall())
            fixed = [(kind, name) for kind, name in names(session.name, record.group).items() if kind is not Kind.GROUP]
            fixed += [(Kind.MACHINE, name) for name in made]
            items = [Item(kind, name, record.site.path(kind, name)) for kind, name in fixed]
            stays = everything(arm, record.site, items)
            if stays:
                raise LeftOnAzureError(left_text(session.name, stays))
        remove_tree(session.folder)
    return Deleted(left)


def say_what_it_cost(session: Session, now: float) -> None:
    """From what was seen last: nothing is asked of Azure for it."""
    if (ledger := load(session.folder)) is not None:
        total, whole = spent(iter(ledger.meters.values()), now)
        more = "" if whole else ", without what has no known price"
        session.progress(f"cluster {session.name}: has cost about ${total:.2f} by list price{more}")


def everything(arm: Arm, site: Site, fixed: Collection[Item]) -> dict[str, str]:
    """Remove all of the cluster, and its group. Return what stays, with the reason. ``fixed``: as for ``clear``."""
    group = arm.find(site.group_path, Kind.GROUP.version, f"resource group {site.group}")
    if group is None:
        return {}
    if stays := clear(arm, site, fixed):
        return stays
    if not is_ours(group, site.id):
        arm.progress(f"resource group {site.group}: stays, because Grass did not make it")
        return {}
    if foreign := others(arm, site):
        arm.progress(f"resource group {site.group}: stays, because of {', '.join(foreign)}, which Grass did not make")
        return {}
    what = f"resource group {site.group}"
    try:
        arm.delete(Kind.GROUP, site.group_path, what)
    except (AzureError, AzureForbiddenError, AzureSlowError) as error:
        return {what: reason(arm, site, error)}
    return {}


def left_text(name: str, stays: dict[str, str]) -> str:
    return "\n".join(
        [
            f"cluster {name}: not all of it could be removed from Azure; what stays may cost money",
            *(f"  {label}: {why.removeprefix(f'{label}: ')}" for label, why in stays.items()),
            f"when that is mended, repeat `grass delete {name}`",
        ]
    )
