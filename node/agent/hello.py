"""The hello of a node: what its settings offer of what it has. Used by ``loop``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from grass import __version__
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources
from grass.node_config import NodeConfig
from grass.system import clock
from grass.wire.gpu import GpuDevice
from grass.wire.hello import Hello
from grass.wire.version import PROTOCOL, REVISION
from node.agent.machine import Offer
from node.agent.place import place_of


def hello(
    node: NodeConfig,
    has: Offer,
    programs: tuple[str, ...] | None = None,
    blocked_by: tuple[Reason, ...] = (),
) -> Hello:
    """Return the hello. Tasks may use the resources in the settings, by default all, without the reserve for the
    system. A node that joined (``probe`` in its settings), or is a namespace, offers no more than
    it has.
    """
    where = place_of(node, has.place)
    return Hello(
        protocol=PROTOCOL,
        version=__version__,
        revision=REVISION,
        boot_id=clock.boot_id(),
        address=node.address,
        api_port=node.api_port,
        resources=resources(node, has),
        gpus=gpus(node, has),
        labels={**has.labels, **node.labels},
        path=where.path,
        path_note=where.note,
        runtimes=tuple(node.runtimes),
        default_image=node.default_image,
        probe=has.probe,
        conditions=blocked_by,
        programs=programs,
        versions=dict(has.versions),
    )


def resources(node: NodeConfig, has: Offer) -> Resources:
    """Return what tasks may use."""
    bounded = node.probe or node.kubernetes is not None
    found = Resources(
        cpu=offered(node.cpu, has.resources.cpu, bounded=bounded),
        memory=offered(node.memory, has.resources.memory, bounded=bounded),
        gpu=offered(node.gpu, has.resources.gpu, bounded=bounded),
        disk=has.resources.disk if node.disk is None else node.disk,
        custom=tuple(sorted((name, amount) for name, amount in node.custom.items() if amount)),
    )
    return without(found, node.reserve)


def gpus(node: NodeConfig, has: Offer) -> tuple[GpuDevice, ...]:
    """Return the devices that tasks may get. Of a namespace all that there are, because Kubernetes chooses among them;
    ``resources`` says how many are used at once."""
    limited = node.gpu is not None and node.kubernetes is None
    return tuple(has.gpus[: (node.gpu or 0) // DEVICE] if limited else has.gpus)


def offered(wanted: int | None, measured: int, *, bounded: bool) -> int:
    """Return the amount to offer; ``wanted`` None: all. ``bounded``: no more than is measured."""
    if wanted is None:
        return measured
    return min(wanted, measured) if bounded else wanted


def without(resources: Resources, reserve: Mapping[str, int]) -> Resources:
    """Return the resources without the reserve, never below zero."""
    return replace(
        resources,
        cpu=max(0, resources.cpu - reserve.get("cpu", 0)),
        memory=max(0, resources.memory - reserve.get("memory", 0)),
        disk=max(0, resources.disk - reserve.get("disk", 0)),
    )
