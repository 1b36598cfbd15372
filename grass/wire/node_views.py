"""The replies of the API about nodes. The rules of ``views`` apply. Sent by the API server."""

from __future__ import annotations

import msgspec

from grass.model.lifecycle import NodeState
from grass.model.reasons import Reason
from grass.wire.checks import NodeCheck
from grass.wire.codec import Form
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import NodeUsage
from grass.wire.machines import Machines
from grass.wire.node_speed import NodeSpeed


class ResourcesView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Amounts of a node."""

    cpu: int
    """Thousandths of a core."""
    memory: int
    """Bytes."""
    gpu: int
    """Thousandths of a device."""
    disk: int = 0
    """Bytes of scratch."""
    custom: dict[str, int] = {}

    def amount(self, name: str) -> int:
        """Return the amount of any resource; 0: the node has none."""
        own = {"cpu": self.cpu, "memory": self.memory, "gpu": self.gpu, "disk": self.disk}
        return own[name] if name in own else self.custom.get(name, 0)


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One node. None: the caller may not see it, or the node has not reported it yet."""

    name: str
    state: NodeState
    reason: Reason | None
    address: str | None
    resources: ResourcesView | None
    free: ResourcesView | None
    tasks: int
    usage: NodeUsage | None
    version: str | None
    seen: float | None
    gpus: tuple[GpuDevice, ...] | None
    labels: dict[str, str] | None
    path: tuple[str, ...] | None
    path_note: str | None = None
    """Where the path is from (its settings, its label, a command), or why there is none."""
    runtimes: tuple[str, ...] | None
    programs: tuple[str, ...] | None = None
    """Programs of frameworks on the PATH of its processes. None: not known."""
    versions: dict[str, str] | None = None
    """Versions of what tasks depend on: ``system``, ``kernel``, ``python``, ``driver`` (of GPUs), ``docker``."""
    machines: Machines | None = None
    """Those of a namespace of Kubernetes; labels and tasks only if this node was asked for. None: it is none, or they
    are not seen."""
    conditions: tuple[Reason, ...] | None = None
    """Why it gets no tasks now; each ends by itself."""
    cordoned: bool | None
    quarantine: dict[str, str] | None
    """Device id → why no new task gets it."""
    check: NodeCheck | None = None
    """Its newest check. None: it was not checked."""
    speed: NodeSpeed | None = None
    """How fast it is beside nodes like it. None: it was not measured."""


class NodesView(msgspec.Struct, frozen=True):
    """All nodes."""

    nodes: tuple[NodeView, ...]


class NodeWaited(msgspec.Struct, frozen=True):
    """A node that a client waits for."""

    node: NodeView | None
    """None: it was removed."""
    mark: str
    """Changes with the node. Send it as ``seen`` to wait for the next change."""
    pause: float
    """Seconds after which to ask again, if too many wait already."""


class NodeReached(msgspec.Struct, frozen=True):
    """Whether the master reaches a node's API."""

    address: str | None
    """ADDRESS:PORT of the node's API. None: not known yet."""
    error: str | None
    """Why the master cannot reach it. None: it answers."""


class NodeAccepted(msgspec.Struct, frozen=True):
    """A change of a node was requested; wait for it with the mark."""

    node: NodeView
    mark: str
    """Mark of the node before the change."""


NODE: Form[NodeView] = Form(NodeView)
NODES: Form[NodesView] = Form(NodesView)
NODE_WAITED: Form[NodeWaited] = Form(NodeWaited)
NODE_REACHED: Form[NodeReached] = Form(NodeReached)
NODE_ACCEPTED: Form[NodeAccepted] = Form(NodeAccepted)
