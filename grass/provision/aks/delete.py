"""`grass delete` of a cluster on Azure's Kubernetes: what Grass made there goes, with the group of its machines; then
this machine's files.

Used by ``provisioner``.
"""

from __future__ import annotations

from grass.azure.aks import foreign, is_of_cluster, name_of, node_group
from grass.azure.arm import Arm
from grass.azure.faults import AzureError, AzureForbiddenError, AzureSlowError
from grass.azure.resources import RESOURCES, Kind
from grass.errors import NotFoundError
from grass.manifest.document import Document
from grass.provision.aks.edges import Edges
from grass.provision.aks.record import Record, load_record
from grass.provision.azure.clear import Item, reason
from grass.provision.azure.delete import LeftOnAzureError, everything, left_text, say_what_it_cost
from grass.provision.filelock import cluster_lock
from grass.provision.provisioner import Deleted, Session
from grass.system.tree_removal import remove_tree


def delete(session: Session, edges: Edges) -> Deleted:
    """Delete the cluster. A repeated call continues an interrupted one. Raises LeftOnAzureError."""
    record = load_record(session.folder)
    if record is not None and record.terms is not None:
        arm = edges.arm(record.endpoint, session)
        with cluster_lock(session.home, session.name):
            if stays := _foreign(arm, record, session.name):
                raise LeftOnAzureError(left_text(session.name, stays))
        edges.local.end_daemons()
        with cluster_lock(session.home, session.name):
            say_what_it_cost(session, edges.wall())
            if stays := _everything(arm, record, session.name):
                raise LeftOnAzureError(left_text(session.name, stays))
            # its pods are gone with it: nothing is asked of it any more
            remove_tree(session.folder / "nodes")
    edges.local.delete()
    return Deleted()


def _foreign(arm: Arm, record: Record, cluster: str) -> dict[str, str]:
    """Return what somebody else put into the group of the machines, which Azure would remove with it."""
    group = node_group(cluster, record.id)
    found = foreign(_listed(arm, record, group), record.id)
    if not found:
        return {}
    return {
        f"Kubernetes {name_of(cluster)}": (
            f"Azure would also remove {', '.join(found)} in {group}, which Grass did not make; move or delete it "
            f"first. If it may go, `az aks delete -g {record.group} -n {name_of(cluster)}` removes it with the cluster"
        )
    }


def _listed(arm: Arm, record: Record, group: str) -> list[Document]:
    try:
        return arm.list(f"{record.nodes_path}/resources", RESOURCES, f"resource group {group}")
    except NotFoundError:
        return []


def _everything(arm: Arm, record: Record, cluster: str) -> dict[str, str]:
    """Remove all of the cluster. Return what stays, with the reason."""
    assert record.terms is not None, "it is saved with them"
    site, names = record.site, [(Kind.KUBERNETES, name_of(cluster))]
    if record.terms.registry:
        names.append((Kind.REGISTRY, record.terms.registry))
    if stays := everything(arm, site, [Item(kind, name, site.path(kind, name)) for kind, name in names]):
        return stays
    return _node_group(arm, record, cluster)


def _node_group(arm: Arm, record: Record, cluster: str) -> dict[str, str]:
    """Remove the group of the machines, if Azure left it."""
    what = f"resource group {node_group(cluster, record.id)}"
    found = arm.find(record.nodes_path, Kind.GROUP.version, what)
    if found is None or not is_of_cluster(found, record.id):
        return {}
    if left := foreign(_listed(arm, record, node_group(cluster, record.id)), record.id):
        return {what: f"has {', '.join(left)}, which Grass did not make; move or delete it first"}
    try:
        arm.delete(Kind.GROUP, record.nodes_path, what)
    except (AzureError, AzureForbiddenError, AzureSlowError) as error:
        return {what: reason(arm, record.site, error)}
    return {}
