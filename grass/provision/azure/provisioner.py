"""Clusters of the mode `grass/azure`: machines that Grass makes. Made by ``grass.provision.registry``.

Once the machines exist, everything is as with machines that exist already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from grass.errors import GrassError
from grass.manifest.azure import AzureSettings
from grass.provision.azure import cost, create, delete, nodes, power
from grass.provision.azure.edges import Edges
from grass.provision.on_premises.node_add import Adding
from grass.provision.on_premises.provisioner import HostsProvisioner
from grass.provision.provisioner import (
    CanCreate,
    CanPlan,
    CanPowerNodes,
    CanScaleNodes,
    CanTellCosts,
    Costs,
    Created,
    Deleted,
    Powered,
    Scaled,
    ScaleRequest,
    Session,
)

if TYPE_CHECKING:
    from grass.api.client import Client


class AzureProvisioner(
    HostsProvisioner, CanCreate[AzureSettings], CanPlan[AzureSettings], CanScaleNodes, CanPowerNodes, CanTellCosts
):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._edges = Edges()

    def plan(self, settings: AzureSettings) -> list[str]:
        return create.plan(settings, self._session, self._edges)

    def create(self, settings: AzureSettings) -> Created:
        return create.create(settings, self._session, self._edges)

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        return delete.delete(self._session, self._edges, force=force, packages=packages)

    def scale_nodes(self, request: ScaleRequest, client: Client, take_out: Callable[[str], None]) -> Scaled:
        self._machines()  # an interrupted cluster has none
        cluster = nodes.Cluster(
            members=lambda: _members(client),
            join=lambda hosts: nodes.join(self._edges, Adding(self._session, client), hosts),
            take_out=take_out,
        )
        return nodes.scale(self._session, self._edges, request, cluster)

    def stop_nodes(
        self, names: Sequence[str], client: Client, drain: Callable[[Sequence[str]], Mapping[str, GrassError]]
    ) -> list[Powered]:
        return power.stop(self._session, self._edges, names, _asked(client, drain=drain))

    def start_nodes(self, names: Sequence[str], client: Client, back: Callable[[str, bool], None]) -> list[Powered]:
        return power.start(self._session, self._edges, names, _asked(client, back=back))

    def costs(self) -> Costs:
        return cost.costs(self._session, self._edges)

    def keeps(self, name: str) -> bool:
        return nodes.is_node(self._session, name) or super().keeps(name)

    def remove_node(self, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
        if nodes.is_node(self._session, name):
            nodes.remove(self._session, self._edges, name, take_out)
        else:
            super().remove_node(name, take_out, force=force, packages=packages)


def _members(client: Client) -> dict[str, nodes.Member]:
    return {node.name: nodes.Member(node.state, node.tasks) for node in client.nodes()}


def _asked(
    client: Client,
    drain: Callable[[Sequence[str]], Mapping[str, GrassError]] = lambda names: {},
    back: Callable[[str, bool], None] = lambda name, open_again: None,
) -> power.Nodes:
    def stopped(name: str, why: str) -> None:
        client.stop_node(name, why[:1000])

    return power.Nodes(lambda: _members(client), drain, stopped, back)
