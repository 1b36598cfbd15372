"""Clusters of the mode `grass/azure`: machines that Grass makes. Made by ``grass.provision.registry``.

Once the machines exist, everything is as with machines that exist already.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from grass.errors import GrassError, InputError
from grass.manifest.azure import AzureSettings
from grass.model.resources import DEVICE, Resources
from grass.provision.azure import autoscaler, cost, create, delete, nodes, power
from grass.provision.azure.change import Member
from grass.provision.azure.edges import Edges
from grass.provision.azure.kinds import kinds_of
from grass.provision.azure.needs import waiting
from grass.provision.on_premises.node_add import Adding
from grass.provision.on_premises.provisioner import HostsProvisioner
from grass.provision.provisioner import (
    AutoscaleRequest,
    CanAutoscale,
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
    from grass.wire.node_views import NodeView


class AzureProvisioner(
    HostsProvisioner,
    CanCreate[AzureSettings],
    CanPlan[AzureSettings],
    CanScaleNodes,
    CanPowerNodes,
    CanTellCosts,
    CanAutoscale[AzureSettings],
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

    def autoscale(self, settings: AzureSettings, request: AutoscaleRequest, client: Client) -> None:
        policy = settings.autoscale
        if policy is None:
            raise InputError("autoscale: is missing in the file; it says for each size at least the most nodes of it")
        session, edges = self._session, self._edges
        kinds = kinds_of(session, edges, policy)
        specification = functools.cache(lambda job: client.job(job).specification or None)
        world = autoscaler.World(
            machines=lambda: nodes.record_of(session).nodes(session.name),
            nodes=lambda: {view.name: _now(view) for view in client.nodes()},
            needs=lambda: waiting(client.jobs(), specification),
            costs=self.costs,
            start=lambda names: self.start_nodes(names, client, request.back),
            stop=lambda names: self.stop_nodes(names, client, request.drain),
            scale=lambda rule, total: self.scale_nodes(
                ScaleRequest({rule.size: total}, spot=rule.spot), client, request.take_out
            ),
            say=session.progress,
            steady=edges.clock.steady,
            wall=edges.wall,
        )
        scaler = autoscaler.Autoscaler(policy, kinds, world, session.folder)
        autoscaler.run(scaler, edges.clock.sleep, once=request.once)

    def costs(self) -> Costs:
        return cost.costs(self._session, self._edges)

    def keeps(self, name: str) -> bool:
        return nodes.is_node(self._session, name) or super().keeps(name)

    def remove_node(self, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
        if nodes.is_node(self._session, name):
            nodes.remove(self._session, self._edges, name, take_out)
        else:
            super().remove_node(name, take_out, force=force, packages=packages)


def _members(client: Client) -> dict[str, Member]:
    return {node.name: Member(node.state, node.tasks, _gpus(node)) for node in client.nodes()}


def _gpus(view: NodeView) -> int | None:
    return None if view.resources is None else view.resources.gpu // DEVICE


def _now(view: NodeView) -> autoscaler.NodeNow:
    has = view.resources
    capacity = Resources(has.cpu, has.memory, has.gpu) if has is not None else None
    return autoscaler.NodeNow(view.state, view.tasks, not view.cordoned, capacity)


def _asked(
    client: Client,
    drain: Callable[[Sequence[str]], Mapping[str, GrassError]] = lambda names: {},
    back: Callable[[str, bool], None] = lambda name, open_again: None,
) -> power.Nodes:
    def stopped(name: str, why: str) -> None:
        client.stop_node(name, why[:1000])

    return power.Nodes(lambda: _members(client), drain, stopped, back)
