"""`grass stop` and `grass start` of a cluster on Azure's Kubernetes: machines and Azure's part are not paid.

Used by ``provisioner`` and ``create``.
"""

from __future__ import annotations

from grass.azure.aks import Terms, is_stopped, kubeconfig_of, kubernetes
from grass.azure.arm import Arm, state_of
from grass.azure.catalogue import added
from grass.azure.resources import Wanted
from grass.errors import GrassError, NotAllowedError, NotFoundError
from grass.manifest.document import Document
from grass.provision.aks.edges import Edges
from grass.provision.aks.look import prices_of
from grass.provision.aks.metering import look_later
from grass.provision.aks.record import KUBECONFIG, Record, record_of
from grass.provision.azure.plan import money
from grass.provision.filelock import cluster_lock
from grass.provision.provisioner import Created, Session
from grass.system.private_file import write_private

_USUAL = 240.0
_TURNING = {True: ("Starting",), False: ("Stopping",)}
"""What Azure calls it while it works on it."""


def stop(session: Session, edges: Edges) -> bool:
    """End tasks and daemons here, then stop the machines. Return whether anything ran. May be repeated."""
    record, terms = record_of(session)
    ran = edges.local.stop()
    with cluster_lock(session.home, session.name):
        arm, each = edges.arm(record.endpoint, session), kubernetes(terms, record.site)
        found = arm.until_settled(each.path, each.kind, each.label)
        if found is None:
            raise NotFoundError(f"{each.label}: does not exist; `grass delete {session.name}` removes the rest")
        if not is_stopped(found):
            ran = True
            turn(arm, each, on=False)
        known = prices_of(arm, terms)
        look_later(arm, record, session, edges, known)
        kept = money(added([known.balancer, known.address, known.registry]))
        session.progress(
            f"{each.label}: is stopped; its balancer, address and registry are still paid ({kept}), and the files of "
            "its share. Azure keeps it for 12 months, and wants 15 minutes before it is started again"
        )
    return ran


def start(session: Session, edges: Edges) -> Created:
    """Start the machines, then the master here. May be repeated."""
    record, terms = record_of(session)
    with cluster_lock(session.home, session.name):
        arm, each = edges.arm(record.endpoint, session), kubernetes(terms, record.site)
        found = arm.until_settled(each.path, each.kind, each.label)
        if found is None:
            raise NotFoundError(f"{each.label}: does not exist; `grass delete {session.name}` removes the rest")
        if is_stopped(found):
            found = turn(arm, each, on=True)
            # the address of its API server may be another one now
            write_private(session.folder / KUBECONFIG, kubeconfig(arm, record, terms, found))
        look_later(arm, record, session, edges)
    return edges.local.start()


def turn(arm: Arm, each: Wanted, *, on: bool) -> Document:
    """Start or stop the machines. Return the cluster. Raises GrassError: they are as they were."""
    verb = "start" if on else "stop"

    def has_begun() -> bool:
        there = arm.find(each.path, each.kind.version, each.label)
        return there is not None and (state_of(there) in _TURNING[on] or is_stopped(there) != on)

    arm.finish(arm.act(each.kind, each.path, verb, each.label, has_begun), f"{each.label}: {verb}", usual=_USUAL)
    found = arm.until_settled(each.path, each.kind, each.label)
    if found is None or is_stopped(found) == on:
        still = "is still off" if on else "is still on, and paid"
        raise GrassError(f"{each.label}: {still}; repeat the command")
    return found


def kubeconfig(arm: Arm, record: Record, terms: Terms, found: Document) -> str:
    """Return the kubeconfig of an administrator. Raises NotAllowedError: there is none."""
    each = kubernetes(terms, record.site)
    if found["properties"].get("disableLocalAccounts"):
        raise NotAllowedError(
            f"{each.label}: a policy turned its local accounts off, so Azure gives Grass no kubeconfig; run `az aks "
            f"get-credentials -g {record.group} -n {each.name}` and `kubelogin convert-kubeconfig -l azurecli`, then "
            "use the cluster with `mode: k8s`"
        )
    text = kubeconfig_of(arm.act(each.kind, each.path, "listClusterAdminCredential", each.label).content)
    if not text:
        raise GrassError(f"{each.label}: Azure's reply has no kubeconfig; repeat the command")
    return text
