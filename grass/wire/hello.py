"""What a node-agent says when it starts: what the machine has, and whether it is fit for tasks."""

from __future__ import annotations

import msgspec

from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.wire.gpu import GpuDevice


class ProbeCheck(msgspec.Struct, frozen=True):
    name: str
    ok: bool
    message: str = ""


class Probe(msgspec.Struct, frozen=True):
    """Result of the probe: a task in each runtime, the share, the collector, the GPUs that the settings promise."""

    passed: bool
    checks: tuple[ProbeCheck, ...] = ()


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="hello"):
    """At every start of the node-agent, after the runtime's list of attempts was read."""

    protocol: int
    """``grass.wire.version.PROTOCOL`` of the node."""
    version: str
    """Of Grass on the node."""
    boot_id: str
    address: str
    """Where the master and other nodes reach it."""
    api_port: int
    """Of its node-api-server."""
    resources: Resources
    """What tasks may use: the settings, or what the machine has, without the settings' ``reserve``."""
    gpus: tuple[GpuDevice, ...] = ()
    labels: dict[str, str] = {}
    path: tuple[str, ...] = ()
    """Topology, from the outside in: ``rack1``, ``switch3``."""
    runtimes: tuple[str, ...] = ("process",)
    """Of ``process`` and ``docker``."""
    probe: Probe | None = None
    """None: its settings ask for no probe."""
    conditions: tuple[Reason, ...] = ()
    """As in a heartbeat."""
