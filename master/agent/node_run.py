"""A node as the master-agent remembers it: its resources, and the tasks that it has. Part of ``state``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grass.model.lifecycle import NodeState
from grass.model.machine_labels import with_own
from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.model.runtime import PROCESSES_ONLY
from grass.wire.checks import NodeCheck
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import NodeUsage
from grass.wire.keys import LaunchKey
from grass.wire.machines import Machines
from grass.wire.moment import Moment
from grass.wire.node_speed import NodeSpeed
from grass.wire.task_record import TaskRecord

NOTHING = Resources()
NO_USAGE = NodeUsage()


@dataclass(slots=True)
class ComponentOnNode:
    """The tasks of one component on one node. At most ``width`` of them run at once; the others wait there.

    ``width`` is never above ``live``. ``width * shape`` is what is allocated to them on the node.
    """

    shape: Resources
    width: int
    tasks: dict[int, TaskRecord] = field(default_factory=dict)
    sent_width: int = -1
    """The width that was last sent to the node."""
    preempted: int = 0
    """How many of them are being preempted."""
    until: float = 0.0
    """Steady time at which the last of them must have ended, if the component has a time limit."""
    assigned: float = 0.0
    """Steady time at which the last of them was assigned."""

    @property
    def live(self) -> int:
        """How many tasks run or wait on the node."""
        return len(self.tasks)


@dataclass(slots=True)
class DeviceRun:
    """A GPU. ``allocated``: thousandths. ``present``: whether the node still offers it."""

    model: str = ""
    memory: int = 0
    allocated: int = 0
    busy: str = ""
    """Owner of a program on it that is not a task of Grass, or empty."""
    quarantine: str = ""
    """Why it is in quarantine, or empty. Its tasks go on; no new task gets it."""
    present: bool = True


@dataclass(slots=True)
class Drain:
    """A drain that an administrator asked for.

    ``deadline``: when the node's tasks are stopped (None: never). ``remove``: it leaves the cluster when empty.
    ``address``: from where the user asked for it.
    """

    user: str
    deadline: Moment | None = None
    remove: bool = False
    address: str = ""


@dataclass(slots=True)
class NodeRun:
    """One node. ``records.node_record`` makes its record from this whenever it is written."""

    name: str
    state: NodeState = NodeState.JOINING
    reason: Reason | None = None
    address: str = ""
    total: Resources = NOTHING
    version: str = ""
    api_port: int = 0
    gpus: tuple[GpuDevice, ...] = ()
    """The same as in its last hello."""
    usage: NodeUsage = NO_USAGE
    seen: float = 0.0
    """Steady time of this master-agent at the node's last message."""
    seen_wall: float | None = None
    """The same in wall-clock seconds, for people."""
    boot: str = ""
    launches: dict[LaunchKey, ComponentOnNode] = field(default_factory=dict)
    allocated: Resources = NOTHING
    """The sum over ``launches``."""
    devices: dict[int, DeviceRun] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    """Ports of its tasks."""
    change: int = 0
    """Number of the last desired-state change sent."""
    labels: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    path_note: str = ""
    runtimes: tuple[str, ...] = PROCESSES_ONLY
    default_image: str = ""
    """As in its last hello."""
    programs: tuple[str, ...] | None = None
    """As in a heartbeat."""
    versions: dict[str, str] = field(default_factory=dict)
    """As in its last hello."""
    machines: Machines | None = None
    """Those of a namespace, as last reported. None: it is none, or they are not seen."""
    machine_labels: tuple[Mapping[str, str], ...] = ()
    """Labels of those of its machines to which tasks may go, as `where` sees them."""
    digest: str = ""
    """Digest of its password, if it joined by a ticket. Such a node must pass its probe before it is READY."""
    unfit: Reason | None = None
    """Why it must get no tasks, from its last hello."""
    conditions: tuple[Reason, ...] = ()
    """Why it must get no tasks now, from its last message. Conditions end by themselves."""
    forgiven: dict[int, int] = field(default_factory=dict)
    """Device → how many of its ECC errors an administrator has accepted."""
    check: NodeCheck | None = None
    """Its newest check."""
    condemned: Reason | None = None
    """Why it must get no tasks, by a check."""
    bad_devices: dict[int, str] = field(default_factory=dict)
    """Device → why no new task gets it, by a check."""
    speed: NodeSpeed | None = None
    """How fast it was measured to be; see ``node_speeds``."""
    cordoned: bool = False
    drain: Drain | None = None
    written: float = float("-inf")
    """Steady time at which its record was last written for a heartbeat."""
    refused: float = float("-inf")
    """Steady time of the last event about a refused report of this node."""
    ends: int = 0
    """Ends of its daemons that it reported since ``ends_since`` (steady time)."""
    ends_since: float = float("-inf")

    def see(self, machines: Machines | None) -> None:
        """Note the machines of a namespace."""
        self.machines = machines
        labelled = machines.labelled() if machines is not None else ()
        self.machine_labels = tuple(with_own(labels, each.name) for each, labels in labelled if not each.closed)

    def closed_machine(self, name: str) -> str:
        """Return why no pod goes to a machine of a namespace; empty: it may, or that is not known."""
        machines = self.machines.machines if self.machines is not None else ()
        return next((each.closed for each in machines if each.name == name), "")

    @property
    def free(self) -> Resources:
        """Return what is not allocated. Negative if the node has shrunk below what is allocated."""
        return self.total - self.allocated

    @property
    def live(self) -> int:
        """How many tasks run or wait on the node."""
        return sum(launch.live for launch in self.launches.values())
