"""The record of one node. Written by the master-agent."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from grass.model.lifecycle import NodeState
from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.model.runtime import PROCESSES_ONLY
from grass.wire.checks import NodeCheck
from grass.wire.codec import Form
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import NodeUsage
from grass.wire.machines import Machines
from grass.wire.moment import Moment
from grass.wire.node_speed import NodeSpeed


class DrainRecord(NamedTuple):
    """A drain of a node. As JSON: a list."""

    user: str
    deadline: Moment | None
    """When its tasks are stopped. None: they run to their end."""
    remove: bool
    """Whether it leaves the cluster once it is empty."""
    address: str = ""
    """Address from which the user asked for it."""


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one node. By name in the hash ``nodes``."""

    name: str
    state: NodeState
    reason: Reason | None = None
    address: str = ""
    resources: Resources = Resources()
    """Resources for tasks."""
    free: Resources = Resources()
    """Resources that are not allocated. Negative if the node has shrunk below what is allocated."""
    tasks: int = 0
    """Number of attempts that run or wait there."""
    usage: NodeUsage = NodeUsage()
    version: str = ""
    """Version of Grass on the node."""
    api_port: int = 0
    gpus: tuple[GpuDevice, ...] = ()
    boot: str = ""
    """Boot id."""
    seen: float | None = None
    """Time of its last message: seconds since the epoch, by the master's clock."""
    labels: dict[str, str] = {}
    path: tuple[str, ...] = ()
    path_note: str = ""
    runtimes: tuple[str, ...] = PROCESSES_ONLY
    default_image: str = ""
    """The same as in its last hello."""
    programs: tuple[str, ...] | None = None
    """The same as in a heartbeat."""
    versions: dict[str, str] = {}
    """The same as in its last hello."""
    machines: Machines | None = None
    """Those of a namespace of Kubernetes. None: it is none, or they are not seen."""
    digest: str = ""
    """SHA-256 of the password of its redis user, if it joined by a ticket."""
    cordoned: bool = False
    unfit: Reason | None = None
    """Why it gets no tasks, from its last hello."""
    conditions: tuple[Reason, ...] = ()
    """Why it is temporarily unfit, by its last message."""
    forgiven: dict[int, int] = {}
    """Device id → number of ECC errors that an administrator has accepted."""
    quarantine: dict[int, str] = {}
    """Device id → why no new task gets it."""
    drain: DrainRecord | None = None
    check: NodeCheck | None = None
    """Its newest check."""
    condemned: Reason | None = None
    """Why it gets no tasks, by a check."""
    bad_devices: dict[int, str] = {}
    """Device id → what a check found. They are in ``quarantine``, too."""
    speed: NodeSpeed | None = None
    """How fast it was measured to be. None: it was not measured."""


NODE_RECORD: Form[NodeRecord] = Form(NodeRecord)
