"""`grass cost` of a cluster on Azure's Kubernetes, by list price. Used by ``provisioner``."""

from __future__ import annotations

from grass.azure import meter
from grass.provision.aks.edges import Edges
from grass.provision.aks.metering import look
from grass.provision.aks.record import record_of
from grass.provision.filelock import cluster_lock
from grass.provision.provisioner import Session
from grass.wire.cloud import CloudCosts

_LIMITS = (
    "list prices in US dollars, without taxes, discounts, credits, traffic and the files of the share; what Azure "
    "bills is in the portal (Cost Management)",
    "what was scaled, stopped or started outside of Grass counts from when Grass saw it",
)


def costs(session: Session, edges: Edges) -> CloudCosts:
    with cluster_lock(session.home, session.name):
        record, _ = record_of(session)
        ledger, states = look(edges.arm(record.endpoint, session), record, session, edges)
    return meter.costs(ledger, states, edges.wall(), _LIMITS)
