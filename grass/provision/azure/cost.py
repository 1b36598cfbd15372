"""`grass cost` on Azure: what the cluster costs and has cost, by list price. Used by ``provisioner``."""

from __future__ import annotations

from grass.azure import meter
from grass.provision.azure import metering
from grass.provision.azure.adopting import adopt
from grass.provision.azure.edges import Edges
from grass.provision.azure.nodes import record_of
from grass.provision.filelock import cluster_lock
from grass.provision.provisioner import Session
from grass.wire.cloud import CloudCosts

_LIMITS = (
    "list prices in US dollars, without taxes, discounts, credits and traffic; what Azure bills is in the portal (Cost "
    "Management)",
    "a machine that was stopped or started outside of Grass counts from when Grass saw it",
)


def costs(session: Session, edges: Edges) -> CloudCosts:
    with cluster_lock(session.home, session.name):
        record = record_of(session)
        arm = edges.arm(record.endpoint, session)
        record = adopt(session, arm, record)
        now = edges.wall()
        power = metering.look(arm, record, session.folder, now, {})
        ledger = metering.load(session.folder)
    assert ledger is not None, "the look wrote it"
    return meter.costs(ledger, {name: found.state for name, found in power.items()}, now, _LIMITS)
