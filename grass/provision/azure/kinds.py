"""What a node of each size of ``autoscale`` will have and cost, before there is one.

Used by ``create`` and ``provisioner``.
"""

from __future__ import annotations

from dataclasses import replace

from grass.azure.arm import Arm
from grass.azure.autoscale import Kind
from grass.errors import InputError
from grass.manifest.azure_autoscale import Autoscale, Rule
from grass.model.resources import DEVICE, Resources
from grass.provision.azure.edges import Edges
from grass.provision.azure.look import Region, costs
from grass.provision.azure.nodes import record_of
from grass.provision.azure.record import Record
from grass.provision.provisioner import Session

_GIB = 1 << 30
_OF_TASKS = 0.9
"""Part of a machine's memory that is left for tasks, about: the system has the rest."""


def kinds_of(session: Session, edges: Edges, policy: Autoscale) -> dict[Rule, Kind]:
    """Raises InputError: Azure has no such size in the cluster's region."""
    record = record_of(session)
    arm = edges.arm(record.endpoint, session)
    return kinds_in(edges.region(arm, record), arm, record, policy)


def kinds_in(region: Region, arm: Arm, record: Record, policy: Autoscale) -> dict[Rule, Kind]:
    assert record.terms is not None, "record_of refuses it"
    found = {}
    for rule in policy.rules:
        size = region.sizes.get(rule.size.lower())
        if size is None:
            raise InputError(f"autoscale.sizes.{rule.size}: Azure has no such size in {region.name}")
        capacity = Resources(size.cores * 1000, int(size.memory * _OF_TASKS * _GIB), size.gpus * DEVICE)
        like = replace(record.terms.machine, size=size.name, spot=rule.spot)
        found[rule] = Kind(capacity, costs(arm, record.location, like).machine.hourly)
    return found
