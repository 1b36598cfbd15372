"""`grass cost` on Azure: what the cluster costs and has cost, by list price. Used by ``provisioner``."""

from __future__ import annotations

from collections.abc import Mapping

from grass.azure import meter
from grass.provision.azure import metering
from grass.provision.azure.adopting import adopt
from grass.provision.azure.edges import Edges
from grass.provision.azure.metering import Power
from grass.provision.azure.nodes import record_of
from grass.provision.filelock import cluster_lock
from grass.provision.provisioner import Session
from grass.wire.cloud import CloudCost, CloudCosts

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
    found = tuple(_cost(ledger, name, power, now) for name in meter.machines(ledger))
    return CloudCosts(ledger.begun, now, found, _LIMITS)


def _cost(ledger: meter.Ledger, name: str, power: Mapping[str, Power], now: float) -> CloudCost:
    machine = ledger.meters.get(f"{name}/machine")
    paid_now = [each for each in meter.of_machine(ledger, name) if each.since is not None]
    spent, whole = meter.spent(meter.of_machine(ledger, name), now)
    state = power[name].state if name in power else "exists" if paid_now else "removed"
    return CloudCost(
        name,
        machine.what if machine else "",
        state,
        machine.hours_until(now) if machine else 0.0,
        meter.hourly(iter(paid_now)),
        spent,
        whole,
    )
