"""How much a namespace has for tasks: what its quotas leave for us. Pure; used by
``grass.provision.namespaces`` and ``node.agent.namespace``.

Several quotas may limit the same resource; the smallest counts. A quota with a scope applies to some pods only, and is
left out: what it refuses is said when it refuses (``creation``). Requests and limits of our pods are equal, so a quota
of either counts. What neither a quota nor the user says is what all machines have, if they may be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from grass.kubernetes.objects import ResourceQuota
from grass.kubernetes.quantity import thousandths, whole
from grass.model.resources import Resources


class Most(NamedTuple):
    """What a namespace may offer at most. None: nobody said."""

    cpu: int | None = None
    memory: int | None = None
    gpu: int | None = None
    disk: int | None = None


def limited(quotas: Iterable[ResourceQuota], settings: Most, gpu: str) -> Most:
    """Return what quotas and settings allow. ``settings``: what the user says that it has. ``gpu``: the resource of
    GPUs."""
    hard = [quota.status.hard or quota.spec.hard for quota in quotas if applies(quota)]
    cpu = _least(hard, ("limits.cpu", "requests.cpu", "cpu"), thousandths)
    memory = _least(hard, ("limits.memory", "requests.memory", "memory"), whole)
    devices = _least(hard, (f"limits.{gpu}", f"requests.{gpu}"), thousandths)
    return Most(
        cpu=_smaller(cpu, settings.cpu),
        memory=_smaller(memory, settings.memory),
        gpu=_smaller(devices, settings.gpu),
        disk=settings.disk,
    )


def offered(limits: Most, machines: Resources | None = None) -> Resources:
    """Return what the namespace offers. ``limits``: of ``limited``. ``machines``: what all of them have together; None:
    they cannot be seen."""
    has = machines or Resources()
    return Resources(
        cpu=has.cpu if limits.cpu is None else limits.cpu,
        memory=has.memory if limits.memory is None else limits.memory,
        gpu=has.gpu if limits.gpu is None else limits.gpu,
        disk=limits.disk or 0,
    )


def applies(quota: ResourceQuota) -> bool:
    """Return whether a quota counts all pods."""
    return not quota.spec.scopes and quota.spec.scope_selector is None


def _least(hard: Iterable[Mapping[str, str]], names: Iterable[str], read: Callable[[str], int]) -> int | None:
    found = [read(each[name]) for each in hard for name in names if name in each]
    return min(found, default=None)


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
