"""Clusters of the mode `grass/on-premises`: machines that are set up over SSH. Made by ``grass.provision.registry``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grass.api.keyring import load_profile
from grass.errors import ConflictError, GrassError, NotFoundError
from grass.manifest.on_premises import OnPremisesSettings
from grass.provision.on_premises import backup, create, delete, failover, moving, namespace_nodes, node_remove, status
from grass.provision.on_premises.machines import Machines, load_machines, ssh_words
from grass.provision.on_premises.node_add import Adding, Machine, add_machines
from grass.provision.on_premises.node_hosts import wanted_hosts
from grass.provision.provisioner import (
    AddedNode,
    CanAddNamespaces,
    CanAddNodes,
    CanAutoscale,
    CanBackUp,
    CanCreate,
    CanFailOver,
    CanLogIn,
    CanMove,
    CanPlan,
    CanPowerNodes,
    CanRemoveNodes,
    CanRepair,
    CanScaleNodes,
    CanStartAtBoot,
    CanStop,
    CanTellCosts,
    ClusterStatus,
    Created,
    Deleted,
    Finding,
    Moved,
    MoveRequest,
    NodeRequest,
    Session,
)

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.provision.namespaces import NamespaceRequest
    from grass.wire.backup import BackedUp, BackupHeader
    from grass.wire.node_views import NodeView

NODES_AT_ONCE = 8


class HostsProvisioner(CanAddNodes, CanAddNamespaces, CanRemoveNodes, CanLogIn, CanBackUp):
    """What clusters of several hosts can, whoever made the hosts."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def status(self) -> ClusterStatus:
        url = self._url()
        master = status.master_state(self._session)
        if master.error:
            self._session.progress(master.error)
        return ClusterStatus(url, master.daemons, master.problems)

    def findings(self) -> list[Finding]:
        """Return what is wrong with the cluster's files here, or its standby. Setup and the nodes check the rest."""
        try:
            self._url()
        except ConflictError as error:
            again = f"repeat `grass create FILE`, or remove it with `grass delete {self._session.name}`"
            return [Finding(f"cluster {self._session.name}", False, str(error).partition(";")[0], again)]
        return list(self._findings_of_standby())

    def _findings_of_standby(self) -> Iterator[Finding]:
        from grass.api.client import Client

        machines = load_machines(self._session.name, self._session.home)
        if machines is None or machines.standby is None:
            return
        with suppress(GrassError), Client(self._session.name, home=self._session.home) as client:
            view = client.status().standby
            if view is not None and view.state == "away":
                cure = f"`journalctl -u grass-standby@{self._session.name}` on it says why"
                yield Finding(f"standby of {self._session.name}", False, f"{view.address} is away", cure)
            elif view is not None and view.witness and view.why:
                text = f"{view.address} would not take over by itself now: {view.why}"
                cure = f"the witness is node {view.witness}; `grass node show {view.witness}` says how it is"
                yield Finding(f"standby of {self._session.name}", False, text, cure)

    def add_nodes(self, request: NodeRequest, client: Client) -> Sequence[AddedNode]:
        hosts = wanted_hosts(request, self._machines().master.login)
        adding = Adding(self._session, client, request.plan)
        with ThreadPoolExecutor(min(NODES_AT_ONCE, len(hosts))) as pool:
            return add_machines(adding, [Machine(host, request.offer) for host in hosts], pool)

    def add_namespace(self, request: NamespaceRequest, client: Client) -> NodeView | None:
        return namespace_nodes.add(self._session, self._machines(), request, client)

    def back_up(self, target: Path, passphrase: str, parts: Sequence[str]) -> tuple[BackupHeader, BackedUp]:
        return backup.back_up(self._session, self._machines(), target, passphrase, parts)

    def keeps(self, name: str) -> bool:
        return name in self._machines().namespaces

    def remove_node(self, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
        if self.keeps(name):
            namespace_nodes.remove(self._session, self._machines(), name, take_out, force=force)
            return
        node_remove.remove_node(self._session, name, take_out, force=force, packages=packages)

    def ssh_command(self, name: str, client: Client) -> list[str]:
        """Return the ssh command for a node.

        The command uses the host key that was pinned when the node was added. For a node that joined by itself, the
        command uses the user's own SSH settings. For a namespace of Kubernetes it is the master, where its agent runs.
        """
        machines = self._machines()
        settings = machines.master if name in machines.namespaces else machines.nodes.get(name)
        if settings is None:
            address = client.node(name).address
            if not address:
                raise NotFoundError(f"node {name} has not reported its address yet")
            return ["ssh", address]
        return ssh_words(settings, self._session.client_dir)

    def refusal(self, capability: object) -> str:
        if capability is CanRepair:
            return "--repair is for a cluster on this machine; for a host see docs/guide/faults.md"
        if capability in (CanStop, CanStartAtBoot):
            name = self._session.name
            return (
                f"cluster {name} is on several hosts, whose services start at boot; on a host, "
                f"`systemctl stop 'grass-*@{name}.service'` stops its own"
            )
        if capability is CanMove:
            return "`grass cluster move` is for clusters on several hosts that you have; this one's master stays"
        if capability is CanFailOver:
            return "`grass cluster failover` is for clusters on several hosts that you have, with a standby"
        if capability is CanScaleNodes:
            return "`grass node scale` makes machines on Azure; `grass node add` joins machines that you have"
        if capability is CanPowerNodes:
            return "`grass node stop` turns machines on Azure off; `grass node drain` empties a node that you have"
        if capability is CanAutoscale:
            return "`grass autoscale` starts and stops machines on Azure; it cannot turn on machines that you have"
        if capability is CanTellCosts:
            return f"cluster {self._session.name}: is not on Azure, so Grass knows no prices of its machines"
        return f"cluster {self._session.name} is on several hosts; repeat `grass create FILE`"

    def _url(self) -> str:
        try:
            return load_profile(self._session.client_dir).url
        except NotFoundError as error:
            raise self._interrupted() from error

    def _interrupted(self) -> ConflictError:
        return ConflictError(f"cluster {self._session.name}: creating it was interrupted; repeat `grass create FILE`")

    def _machines(self) -> Machines:
        machines = load_machines(self._session.name, self._session.home)
        if machines is None:
            raise self._interrupted()
        return machines


class OnPremisesProvisioner(
    HostsProvisioner, CanCreate[OnPremisesSettings], CanPlan[OnPremisesSettings], CanMove, CanFailOver
):
    def plan(self, settings: OnPremisesSettings) -> list[str]:
        return create.plan(settings, self._session)

    def create(self, settings: OnPremisesSettings) -> Created:
        return create.create(settings, self._session)

    def move(self, request: MoveRequest) -> Moved:
        return moving.move(request, self._session, self._machines())

    def fail_over(self, *, force: bool) -> tuple[Created, float]:
        return failover.failover(self._session, force=force)

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        return delete.delete(self._session, force=force, packages=packages)
