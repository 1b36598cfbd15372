"""The heartbeat of a node: every 2 s, and when its conditions change. It replaces an unread earlier one.

Sent by the node-agent, taken by the master-agent.
"""

from __future__ import annotations

import msgspec

from grass.model.reasons import Reason
from grass.wire.gpu import GpuSample


class Network(msgspec.Struct, frozen=True):
    """Bytes per second since the previous heartbeat, without traffic inside the machine."""

    sent: int = 0
    received: int = 0


class NodeUsage(msgspec.Struct, frozen=True):
    """What the machine uses now, its tasks and all other programs together."""

    cpu: float = 0.0
    """Percent of all cores."""
    cores: tuple[float, ...] = ()
    """Percent of each core."""
    memory: int = 0
    """Bytes in use."""
    memory_total: int = 0
    """Bytes."""
    load: float = 0.0
    """Load average over one minute."""
    disk_free: int = 0
    """Bytes free where the node's folder is."""
    disk_total: int = 0
    """Bytes."""
    network: Network = Network()
    gpus: tuple[GpuSample, ...] = ()


class Heartbeat(msgspec.Struct, frozen=True, tag_field="kind", tag="heartbeat"):
    """A sign of life, with what may have changed since the last one."""

    usage: NodeUsage = NodeUsage()
    conditions: tuple[Reason, ...] = ()
    """Why nothing starts there now (``disk``, ``share``). Attempts wait on the node meanwhile, with that reason."""
    programs: tuple[str, ...] | None = None
    """Programs of frameworks that its processes find on their PATH (``grass.frameworks.programs``). None: not known."""
