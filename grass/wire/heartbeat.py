"""The heartbeat of a node: every 2 s, and when its conditions change. It replaces one that nobody has read yet."""

from __future__ import annotations

import msgspec

from grass.model.reasons import Reason
from grass.wire.gpu import GpuSample


class Network(msgspec.Struct, frozen=True):
    """Bytes a second since the heartbeat before, without traffic inside the machine."""

    sent: int = 0
    received: int = 0


class NodeUsage(msgspec.Struct, frozen=True):
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
    usage: NodeUsage = NodeUsage()
    conditions: tuple[Reason, ...] = ()
    """Why nothing starts there now (``disk``, ``share``). Meanwhile attempts wait on the node, with that reason."""
