"""Clusters of the mode `grass/azure`: machines that Grass makes. Made by ``grass.provision.registry``.

Once the machines exist, everything is as with machines that exist already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grass.manifest.azure import AzureSettings
from grass.provision.azure import create, delete, nodes
from grass.provision.azure.edges import Edges
from grass.provision.on_premises.node_add import Adding
from grass.provision.on_premises.provisioner import HostsProvisioner
from grass.provision.provisioner import (
    CanCreate,
    CanPlan,
    CanScaleNodes,
    Created,
    Deleted,
    Scaled,
    ScaleRequest,
    Session,
)

if TYPE_CHECKING:
    from grass.api.client import Client


class AzureProvisioner(HostsProvisioner, CanCreate[AzureSettings], CanPlan[AzureSettings], CanScaleNodes):
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
            members=lambda: {node.name: nodes.Member(node.state, node.tasks) for node in client.nodes()},
            join=lambda hosts: nodes.join(self._edges, Adding(self._session, client), hosts),
            take_out=take_out,
        )
        return nodes.scale(self._session, self._edges, request, cluster)

    def keeps(self, name: str) -> bool:
        return nodes.is_node(self._session, name) or super().keeps(name)

    def remove_node(self, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
        if nodes.is_node(self._session, name):
            nodes.remove(self._session, self._edges, name, take_out)
        else:
            super().remove_node(name, take_out, force=force, packages=packages)
