"""Interface between the CLI and the kinds of clusters: the operations on a cluster from the user's machine.

Called by the CLI. Each mode has one implementation (``registry`` lists them) with the capabilities of its kind;
``need`` refuses what it lacks. This module must import neither an implementation nor a module that speaks SSH, because
every call of `grass` may load it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar, cast, runtime_checkable

from grass.errors import ConflictError, GrassError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from grass.api.client import Client
    from grass.manifest.join_file import Offer
    from grass.model.daemons import DaemonState
    from grass.node_config import NodeHome
    from grass.provision.namespaces import NamespaceRequest
    from grass.wire.backup import BackedUp, BackupHeader
    from grass.wire.cloud import CloudCosts
    from grass.wire.node_views import NodeView

C = TypeVar("C")
S = TypeVar("S", contravariant=True)
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Session:
    """A cluster and the user's terminal, for one command.

    ``home``: GRASS_HOME. ``progress`` takes a line for the user. ``ask`` asks the user for a password; None: there is
    nobody to ask.
    """

    name: str
    home: Path
    progress: Progress
    ask: Callable[[str], str | None] | None = None

    @property
    def folder(self) -> Path:
        return self.home / "clusters" / self.name

    @property
    def client_dir(self) -> Path:
        return self.folder / "client"


@dataclass(frozen=True)
class Created:
    """Result of ``create``.

    ``url``: address of the API, as this machine reaches it. ``done`` and ``unchanged``: counts of steps on the
    cluster's hosts.
    """

    name: str
    mode: str
    home: str
    url: str
    done: int = 0
    unchanged: int = 0


@dataclass(frozen=True)
class Deleted:
    """Result of ``delete``. ``left``: hosts, or names of nodes, that still keep files of Grass, with the reason."""

    left: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterStatus:
    """State of a cluster.

    ``problems``: faults that keep the cluster, or this machine, from working; each text says what to do.
    """

    url: str
    daemons: tuple[DaemonState, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Result of one check of `grass doctor`. ``fix`` says what to do when the result is not ``ok``."""

    name: str
    ok: bool
    message: str
    fix: str = ""


@dataclass(frozen=True)
class NodeRequest:
    """Machines that are to become nodes.

    Each machine is given as ``[USER@]HOST[:PORT]``. ``name`` is set only if there is one machine. ``key``: path of a
    private key. ``become``: ``none`` or ``sudo``. None for either: the same as for the master. ``plan`` takes the lines
    of the plan; if ``plan`` is set, nothing is changed.
    """

    hosts: tuple[str, ...]
    offer: Offer
    key: str | None = None
    become: str | None = None
    plan: Callable[[str], None] | None = None


@dataclass(frozen=True)
class AddedNode:
    """Result of joining one machine.

    ``view``: view of the node that joined. ``error``: the reason why the machine did not join, or what the node still
    lacks; the error has the exit code. ``entered``: SSH reached the machine, so Grass may have created files there.
    """

    label: str
    view: NodeView | None = None
    error: str | None = None
    code: str = ""
    exit_code: int = 0
    entered: bool = True

    @classmethod
    def failed(cls, label: str, error: GrassError, view: NodeView | None = None, *, entered: bool = True) -> AddedNode:
        return cls(label, view, str(error), error.code, error.exit_code, entered)


class RunsAlreadyError(ConflictError):
    """The cluster runs, and nothing of it is missing."""


@dataclass(frozen=True)
class ScaleRequest:
    """How many nodes of each size there are to be, in all. ``zone``: of new ones. ``plan`` as for ``NodeRequest``.

    ``spot``: it is about nodes that the cloud may take back, which count apart. ``max_price``: dollars an hour for each
    new one; None: the regular price. ``or_regular``: make regular nodes in place of those that cannot be had.
    ``patience``: seconds for tasks of what is removed to end; ``move``: after that, they start elsewhere.
    """

    wanted: Mapping[str, int]
    zone: str | None = None
    plan: Callable[[str], None] | None = None
    spot: bool = False
    max_price: float | None = None
    or_regular: bool = False
    patience: float = 0.0
    move: bool = True


@dataclass(frozen=True)
class Scaled:
    """Result of scaling. ``nodes``: those that joined, and those that failed. ``removed``: names. ``lines``: what else
    was done, where machines are no nodes."""

    nodes: tuple[AddedNode, ...] = ()
    removed: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Powered:
    """Result of stopping or starting one node. ``kept``: what is still paid. ``error``: why it failed."""

    name: str
    kept: str = ""
    error: str | None = None
    code: str = ""
    exit_code: int = 0


@dataclass(frozen=True)
class MoveRequest:
    """Where the master is to go. ``to``: ``[USER@]HOST[:PORT]``. ``key``, ``become`` and ``plan`` as for
    ``NodeRequest``. ``nodes_later``: go on although nodes are away, or cannot be told."""

    to: str
    key: str | None = None
    become: str | None = None
    nodes_later: bool = False
    plan: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Moved:
    """Result of a move. ``url``: of the API, as this machine reaches it. ``away``: seconds without a
    master; 0: not known."""

    name: str
    url: str
    away: float = 0.0


class Provisioner(Protocol):
    """What every kind of cluster has. A kind also implements those capabilities below that it has.

    Every method raises errors of ``grass.errors``, with a user message.
    """

    def status(self) -> ClusterStatus:
        """Return the state of the cluster, even if parts of the cluster are down."""

    def findings(self) -> list[Finding]:
        """Return the findings for `grass doctor`. Changes nothing, and calls no other machine."""

    def refusal(self, capability: object) -> str:
        """Return why the cluster lacks a capability, and what to do instead."""


@runtime_checkable
class CanCreate(Provisioner, Protocol[S]):
    """Clusters that are made on this machine, or from it. ``S``: their settings."""

    def create(self, settings: S) -> Created:
        """Create the cluster, or finish an interrupted call."""

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        """Stop the cluster and remove everything that belongs to it. An interrupted call can be repeated.

        ``force``: go on without hosts that cannot be reached. ``packages``: also remove the system packages that were
        installed for the cluster.
        """


@runtime_checkable
class CanPlan(Protocol[S]):
    def plan(self, settings: S) -> list[str]:
        """Return lines that describe what ``create`` would do. Changes nothing."""


@runtime_checkable
class CanStart(Protocol):
    def start(self) -> Created:
        """Start the cluster with the settings that it had before. Raises RunsAlreadyError."""


@runtime_checkable
class CanStop(Protocol):
    def stop(self) -> bool:
        """End tasks and daemons, and keep all state: tasks that ran start anew with the cluster. Return False if
        nothing ran."""


@runtime_checkable
class CanStartAtBoot(Protocol):
    def start_at_boot(self) -> str:
        """Let this machine start the cluster at each boot. Return how, for people. Raises ConflictError: it cannot."""

    def forget_at_boot(self) -> bool:
        """Undo ``start_at_boot``. Return whether there was something to undo."""


@runtime_checkable
class CanRepair(Protocol):
    def repair_at_start(self) -> None:
        """Let the next ``create`` or ``start`` cut off the part of redis' log that redis cannot read."""


@runtime_checkable
class CanBackUp(Protocol):
    def back_up(self, target: Path, passphrase: str, parts: Sequence[str]) -> tuple[BackupHeader, BackedUp]:
        """Write a backup to a new file. ``parts``: ``logs`` and ``data``, if they are wanted."""


@runtime_checkable
class CanMove(Protocol):
    def move(self, request: MoveRequest) -> Moved:
        """Make another machine the master, while tasks run. An interrupted call can be repeated."""


@runtime_checkable
class CanFailOver(Protocol):
    def fail_over(self, *, force: bool) -> tuple[Created, float]:
        """Make the standby the master. ``force``: also if it lacks something. Return for how many seconds it may. An
        interrupted call can be repeated."""


@runtime_checkable
class CanKeepVolume(Protocol):
    def keep_volume(self, *, keep: bool) -> None:
        """Say whether the next ``delete`` keeps the volume of the cluster in Kubernetes. Without a word, it does."""


@runtime_checkable
class CanAddNodes(Protocol):
    def add_nodes(self, request: NodeRequest, client: Client) -> Sequence[AddedNode]:
        """Join machines to the cluster. Return one result for each host, in order."""


@runtime_checkable
class CanScaleNodes(Provisioner, Protocol):
    def scale_nodes(self, request: ScaleRequest, client: Client, take_out: Callable[[str], None]) -> Scaled:
        """Make or remove machines, until there are as many nodes of each size as wanted. ``take_out`` removes a node
        from the cluster."""


@runtime_checkable
class CanPowerNodes(Protocol):
    def stop_nodes(
        self, names: Sequence[str], client: Client, drain: Callable[[Sequence[str]], Mapping[str, GrassError]]
    ) -> list[Powered]:
        """Turn off machines of nodes, so that less is paid. ``drain`` empties nodes; returns why some are not."""

    def start_nodes(self, names: Sequence[str], client: Client, back: Callable[[str, bool], None]) -> list[Powered]:
        """Turn machines on. ``back`` waits until a node takes part; also lets it take tasks again, if asked to."""


@runtime_checkable
class CanTellCosts(Protocol):
    def costs(self) -> CloudCosts:
        """Return what the cluster costs and has cost."""


@dataclass(frozen=True)
class AutoscaleRequest:
    """How nodes are started and stopped by themselves. ``once``: one look. ``drain``, ``back`` and ``take_out``: as for
    ``CanPowerNodes`` and ``CanScaleNodes``."""

    once: bool
    drain: Callable[[Sequence[str]], Mapping[str, GrassError]]
    back: Callable[[str, bool], None]
    take_out: Callable[[str], None]


@runtime_checkable
class CanAutoscale(Protocol[S]):
    def autoscale(self, settings: S, request: AutoscaleRequest, client: Client) -> None:
        """Start and stop nodes by the rules of the settings, until interrupted. Raises InputError: there are none."""


@dataclass(frozen=True)
class NodeImage:
    """An image from which nodes start. ``size``: of the machine that was captured; ``made_from``: its own image."""

    name: str
    size: str
    made_from: str


@runtime_checkable
class CanBuildImages(Protocol):
    def build_image(self, size: str | None, client: Client) -> NodeImage:
        """Build an image in which all is installed that a node needs. Raises InputError: nothing was made."""

    def node_images(self) -> list[NodeImage]:
        """Return the images, the oldest first."""

    def remove_image(self, name: str) -> None:
        """Remove an image. Raises NotFoundError, InputError: new nodes would need it."""


@runtime_checkable
class CanAddNamespaces(Protocol):
    def add_namespace(self, request: NamespaceRequest, client: Client) -> NodeView | None:
        """Make a namespace of Kubernetes a node. Return its view; None: only the plan was wanted."""


@runtime_checkable
class CanReachShares(Protocol):
    def namespace(self, name: str) -> NodeHome:
        """Return the configuration of a node that is a namespace. Raises NotFoundError."""


@runtime_checkable
class CanRemoveNodes(Protocol):
    def remove_node(self, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
        """Reach the node's machine, call ``take_out`` (removes the node from the cluster), then clean the machine."""

    def keeps(self, name: str) -> bool:
        """Return whether ``remove_node`` finds something of the node here, also if the cluster has it no more."""
        return False


@runtime_checkable
class CanLogIn(Protocol):
    def ssh_command(self, name: str, client: Client) -> list[str]:
        """Return ``ssh`` and its arguments, to log in to the node's machine."""


def need(provisioner: Provisioner, capability: Callable[..., C]) -> C:
    """Return the provisioner as one with the capability. Raises InputError: this kind of cluster lacks it."""
    assert isinstance(capability, type)
    if not isinstance(provisioner, capability):
        raise InputError(provisioner.refusal(capability))
    return cast("C", provisioner)
