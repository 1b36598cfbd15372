"""`grass cost` of a cluster on Azure's Kubernetes, by list price. Used by ``provisioner``."""

from __future__ import annotations

from grass.azure import meter
from grass.provision.aks.edges import Edges
from grass.provision.aks.metering import look
from grass.provision.aks.record import record_of
from grass.provision.filelock import cluster_lock
from grass.provision.provisioner import Cost, Costs, Session

_LIMITS = (
    "list prices in US dollars, without taxes, discounts, credits, traffic and the files of the share; what Azure "
    "bills is in the portal (Cost Management)",
    "what was scaled, stopped or started outside of Grass counts from when Grass saw it",
)


def costs(session: Session, edges: Edges) -> Costs:
    with cluster_lock(session.home, session.name):
        record, _ = record_of(session)
        ledger, states = look(edges.arm(record.endpoint, session), record, session, edges)
    now = edges.wall()
    return Costs(ledger.begun, tuple(_cost(ledger, name, states, now) for name in meter.machines(ledger)), _LIMITS)


def _cost(ledger: meter.Ledger, name: str, states: dict[str, str], now: float) -> Cost:
    machine = ledger.meters.get(f"{name}/machine")
    paid = [each for each in meter.of_machine(ledger, name) if each.since is not None]
    spent, whole = meter.spent(meter.of_machine(ledger, name), now)
    state = states.get(name) or ("exists" if paid else "removed")
    what, hours = (machine.what, machine.hours_until(now)) if machine else ("", 0.0)
    return Cost(name, what, state, hours, meter.hourly(iter(paid)), spent, whole)
