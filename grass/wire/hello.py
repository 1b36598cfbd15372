"""The hello of a node-agent: the machine's resources, and whether it is fit for tasks.

Sent by the node-agent, taken by the master-agent.
"""

from __future__ import annotations

import msgspec

from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.model.runtime import PROCESSES_ONLY
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
    """Sent at every start of the node-agent, after it has read the runtime's list of attempts."""

    protocol: int
    """``grass.wire.version.PROTOCOL`` of the node."""
    version: str
    """Version of Grass on the node."""
    revision: int = 0
    """``grass.wire.version.REVISION`` of the node."""
    boot_id: str
    address: str
    """Where the master and other nodes reach it."""
    api_port: int
    """Port of its node-api-server."""
    resources: Resources
    """Resources for tasks: those in the settings, by default those of the machine, without the ``reserve``."""
    gpus: tuple[GpuDevice, ...] = ()
    labels: dict[str, str] = {}
    path: tuple[str, ...] = ()
    """Topology, from the outside in: ``rack1``, ``switch3``."""
    path_note: str = ""
    """Where the path is from (its settings, its label, a command), or why there is none."""
    runtimes: tuple[str, ...] = PROCESSES_ONLY
    """The runtimes that it offers: ``process``, ``docker``; ``kubernetes``, if it is a namespace."""
    default_image: str = ""
    """Image of tasks that name none, if it runs no processes. Empty: such tasks cannot run there."""
    probe: Probe | None = None
    """None: its settings require no probe."""
    conditions: tuple[Reason, ...] = ()
    """The same as in a heartbeat."""
    programs: tuple[str, ...] | None = None
    """The same as in a heartbeat."""
    versions: dict[str, str] = {}
    """Versions of what tasks depend on: ``system``, ``kernel``, ``python``, ``driver`` (of GPUs), ``docker``.
    Also ``limits``: those of isolated processes."""
