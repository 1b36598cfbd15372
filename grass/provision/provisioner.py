"""The port between the CLI and the kinds of clusters: what can be done with a cluster from the user's machine.

Called by the CLI. Implemented once per mode (``registry`` lists them). Holds types only: it must import neither an
implementation nor anything that speaks SSH, because every call of `grass` may load it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from grass.api.client import Client, View
    from grass.manifest.join_file import Offer
    from grass.manifest.settings import Settings

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Session:
    """One cluster as one command works on it.

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
    """``url``: of the API, as this machine reaches it. ``done`` and ``unchanged``: counts of steps on its hosts."""

    name: str
    mode: str
    home: str
    url: str
    done: int = 0
    unchanged: int = 0


@dataclass(frozen=True)
class Deleted:
    """``left``: hosts, or nodes by name, that keep what was made there, with the reason."""

    name: str
    left: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DaemonState:
    """``start``: wall seconds, None when it does not run. ``state``: supervisord's words (RUNNING, EXITED, …)."""

    name: str
    pid: int | None
    state: str
    start: float | None


@dataclass(frozen=True)
class ClusterStatus:
    """``problems``: what keeps the cluster, or this machine, from working; each says what to do."""

    url: str
    daemons: tuple[DaemonState, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One check of `grass doctor`; ``fix`` says what to do when it is not ``ok``."""

    name: str
    ok: bool
    message: str
    fix: str = ""


@dataclass(frozen=True)
class NodeRequest:
    """Machines that shall become nodes: ``[USER@]HOST[:PORT]`` each; ``name`` only if there is one machine.

    ``key``: path of a private key; ``become``: ``none`` or ``sudo``; None, both: as for the master. ``plan``: only tell
    the steps, with each line.
    """

    hosts: tuple[str, ...]
    offer: Offer
    key: str | None = None
    become: str | None = None
    plan: Callable[[str], None] | None = None


@dataclass(frozen=True)
class AddedNode:
    """``view``: of the node that joined. ``error``: why it did not, or what it still lacks, with the exit code of that.

    ``entered``: SSH reached the machine, so something may have been made there.
    """

    label: str
    view: View | None = None
    error: str | None = None
    code: str = ""
    exit_code: int = 0
    entered: bool = True


class Provisioner(Protocol):
    """Every method raises what ``grass.errors`` has, with a message for the user."""

    def plan(self, settings: Settings) -> list[str]:
        """Lines that say what ``create`` would do. Changes nothing."""

    def create(self, settings: Settings | None, *, repair: bool = False) -> Created:
        """Make the cluster, or finish what an interrupted call began. None: as it was when it existed.

        ``repair``: cut off what redis cannot read of its log; InputError where that has to be done on a host.
        """

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        """End the cluster and remove all of it. What was interrupted can be repeated.

        ``force``: go on without hosts that cannot be reached. ``packages``: also remove the packages of the system
        that were installed for it.
        """

    def status(self) -> ClusterStatus:
        """Works whatever of the cluster is down."""

    def findings(self) -> list[Finding]:
        """Return the findings for `grass doctor`. Changes nothing, and calls no other machine."""

    def add_nodes(self, request: NodeRequest, client: Client) -> Sequence[AddedNode]:
        """One result for each host, in order."""

    def remove_node(self, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
        """Reach the node's machine, call ``take_out`` (the cluster lets the node go), then clean the machine."""

    def ssh_command(self, name: str, client: Client) -> list[str]:
        """``ssh`` and its arguments, to log in to the node's machine."""
